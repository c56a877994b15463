"""The laws, stated once and tested at every door: one file a law, one table of doors."""
