"""The long tests: programs with a seed, progress and a report. `scripts/sweep` starts them."""
