"""What was found, as one self-contained HTML file with its pictures: no script, no font, nothing fetched."""
