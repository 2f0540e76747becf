"""Public reports of disturbed CPUs, rebuilt as recordings from the few figures that were posted, and judged."""
