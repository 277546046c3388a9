"""What the papers measured, measured on our core: paths, timeouts, lookups under churn, bytes per link."""
