"""What commands show: progress bars, tables, waterfalls."""
