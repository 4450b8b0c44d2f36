"""One module per format of parallel data, each with `blocks(source, faults)`; the list is `reading.filenames.FORMATS`.

Simple formats with many lines (tsv, moses, muse, parquet) are parsed a block at a time with Arrow and numpy (`assemble`);
richer syntax (csv, jsonl, tmx, po, mo, freedict) gives one record at a time (`records`). To add a format, write its module
here and add its name and suffixes to `FORMATS`.
"""
