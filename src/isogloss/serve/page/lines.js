// Sentences out of text and files.

import { ServiceError } from "./service.js";

const LARGEST_FILE = 50_000_000; // bytes

/** Lines that are not empty, without the space around them: their text and their number. */
export function sentences(text) {
  return text
    .split(/\r\n?|\n/)
    .map((line, place) => ({ text: line.trim().toWellFormed(), line: place + 1 }))
    .filter((entry) => entry.text);
}

/** The first of equal sentences. */
export function distinct(entries) {
  const seen = new Set();
  return entries.filter(({ text }) => !seen.has(text) && seen.add(text));
}

/** The rows of a file, each a list of cells. A file that is neither TSV nor CSV has one column. */
export async function rowsOf(file) {
  if (file.size > LARGEST_FILE) {
    throw new ServiceError(`${file.name} is larger than 50 MB.`, "Use isogloss embed for large files.");
  }
  const text = decodedText(new Uint8Array(await file.arrayBuffer()), file.name);
  const ending = file.name.toLowerCase().split(".").pop();
  if (ending === "csv") return csvRows(text, csvSeparator(text));
  const lines = text.split(/\r\n?|\n/).filter((line) => line.trim());
  return lines.map((line) => (ending === "tsv" || ending === "tab" ? line.split("\t") : [line]));
}

/** The column whose cells are longest: the one with sentences, not the one with numbers or names. */
export function longestColumn(rows) {
  const totals = [];
  for (const row of rows.slice(0, 1000)) row.forEach((cell, place) => (totals[place] = (totals[place] ?? 0) + cell.length));
  return totals.indexOf(Math.max(...totals));
}

function decodedText(bytes, name) {
  const start = bytes[0] * 256 + bytes[1];
  const encoding = start === 0xfffe ? "utf-16le" : start === 0xfeff ? "utf-16be" : "utf-8";
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // said below
  }
  throw new ServiceError(`${name} is not text in UTF-8.`, "Save it as plain text, TSV or CSV with the encoding UTF-8.");
}

/** The separator that occurs most in the first line. */
function csvSeparator(text) {
  const first = text.split(/[\r\n]/, 1)[0].replace(/"[^"]*"/g, "");
  const count = (separator) => first.split(separator).length;
  return [",", ";", "\t"].reduce((best, separator) => (count(separator) > count(best) ? separator : best));
}

/** Rows of CSV text (RFC 4180): cells in quotes may have separators, doubled quotes and line breaks. */
function csvRows(text, separator) {
  const ends = new RegExp(`${separator}|\\r\\n?|\\n|$`, "g");
  const rows = [[]];
  let place = 0;
  while (place < text.length) {
    const [quoted, after] = text[place] === '"' ? quotedPart(text, place + 1) : ["", place];
    ends.lastIndex = after;
    const end = ends.exec(text);
    rows.at(-1).push((quoted + text.slice(after, end.index)).replace(/[\r\n]+/g, " "));
    if (end[0] !== separator) rows.push([]);
    place = end.index + end[0].length;
  }
  return rows.filter((row) => row.some((cell) => cell.trim()));
}

/** What is in quotes, the first of which is before `place`, and the place after the last of them. */
function quotedPart(text, place) {
  const parts = [];
  for (;;) {
    const end = text.indexOf('"', place);
    if (end < 0) return [parts.join("") + text.slice(place), text.length];
    parts.push(text.slice(place, end));
    if (text[end + 1] !== '"') return [parts.join(""), end + 1];
    parts.push('"');
    place = end + 2;
  }
}
