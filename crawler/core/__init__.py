"""The crawler's pure part: decisions and values, no input or output, no clock."""
