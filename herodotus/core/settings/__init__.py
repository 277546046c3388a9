"""Which settings are there, and what does each mean? Frozen sections, and how a section becomes a table of TOML."""
