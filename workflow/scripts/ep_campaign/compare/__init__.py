"""Two finished campaigns side by side: same cells matched, differences first, no verdict beyond what the designs allow."""
