"""How does a peer crawl day after day, and share links and hosts with the others?"""
