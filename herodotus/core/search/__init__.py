"""What is decided about the index of words: which text a page has, which days it covers, what a question means."""
