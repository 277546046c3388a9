"""Where are the captures, and will they still be there tomorrow? Standard WARC files, and what is derived
from them."""
