"""Programs that run in a guest, where shell lines are not enough."""
