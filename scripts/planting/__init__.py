"""Would the tests notice a bug? A list of bugs, planted one at a time in a copy of the tree (scripts/mutants)."""
