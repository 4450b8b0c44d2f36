// The tab "Search": a list of sentences, embedded once, and the nearest of them to any sentence.

import { Notice, Work, amount, byId, create, exportButtons, number, seconds, spoken } from "./elements.js";
import { distinct, longestColumn, rowsOf, sentences } from "./lines.js";
import { VectorList } from "./vectors.js";

const MOST_LINES = 20_000;
const SHOWN = 10;

export class SearchPanel {
  constructor(service) {
    this.service = service;
    this.model = undefined;
    this.list = null; // what is loaded: model, source (the text), entries, vectors, milliseconds
    this.file = null; // name and rows of the chosen file
    this.hits = [];
    this.loading = new Work("list-work", "Loading");
    this.searching = new Work("search-work", "Searching");
    this.listNotice = new Notice("list-notice");
    this.searchNotice = new Notice("search-notice");
    this.text = byId("list");
    this.text.oninput = () => this.count();
    byId("list-form").onsubmit = (event) => {
      event.preventDefault();
      this.load();
    };
    byId("search-form").onsubmit = (event) => {
      event.preventDefault();
      this.search();
    };
    byId("file").onchange = () => this.readFile();
    byId("column").onchange = byId("has-header").onchange = () => this.fillIn();
    exportButtons("hits-exports", "search.tsv", () => this.table());
    this.count();
  }

  /** Takes another model, for which the list must be loaded again. What began before the first was known goes on. */
  useModel(model) {
    const first = this.model === undefined;
    this.model = model;
    if (first) return;
    this.loading.cancel();
    this.searching.cancel();
    this.list = null;
    this.listNotice.hide();
    byId("search-result").hidden = true;
  }

  count() {
    const { length } = sentences(this.text.value);
    byId("list-count").textContent = length > MOST_LINES
      ? `${number(length)} lines; the first ${number(MOST_LINES)} different ones are loaded`
      : amount(length, "line");
  }

  /** Shows the sentences of the chosen file, after asking for the column if there are several. */
  async readFile() {
    const [file] = byId("file").files;
    if (!file) return;
    byId("columns").hidden = true;
    try {
      const rows = await rowsOf(file);
      this.file = { name: file.name, rows };
      this.offerColumns();
      this.fillIn();
    } catch (error) {
      this.listNotice.showError(error);
    }
  }

  offerColumns() {
    const { rows } = this.file;
    const width = rows.reduce((most, row) => Math.max(most, row.length), 1);
    const name = (place) => `${place + 1}: ${(rows[0]?.[place] ?? "").trim().slice(0, 40)}`;
    byId("column").replaceChildren(
      ...Array.from({ length: width }, (_, place) => create("option", { value: place, textContent: name(place) })));
    byId("column").selectedIndex = Math.max(0, longestColumn(rows));
    byId("has-header").checked = false;
    byId("columns").hidden = width === 1;
  }

  fillIn() {
    const { name, rows } = this.file;
    const column = byId("column").selectedIndex;
    const body = byId("has-header").checked ? rows.slice(1) : rows;
    this.text.value = body.map((row) => row[column] ?? "").join("\n");
    this.count();
    const { length } = sentences(this.text.value);
    if (length) this.listNotice.show(`${amount(length, "line")} read from ${name}.`);
    else this.listNotice.show(`${name} has no text${rows.length ? " in this column" : ""}.`, { error: true });
  }

  /** Embeds the list that is entered; true if all of it is. */
  async load() {
    const source = this.text.value;
    const entries = distinct(sentences(source)).slice(0, MOST_LINES);
    this.searching.cancel();
    this.searchNotice.hide();
    byId("search-result").hidden = true;
    if (!entries.length) {
      this.loading.cancel();
      this.list = null;
      this.listNotice.show("Paste sentences or choose a file first.", { error: true });
      return false;
    }
    this.list = { model: this.model, source, entries, vectors: new VectorList(entries.length), milliseconds: 0 };
    return this.embedRest();
  }

  /** Embeds what of the list is not embedded yet. */
  async embedRest() {
    const { list } = this;
    const { entries, vectors, model } = list;
    const already = vectors.count;
    const began = performance.now();
    const resume = { action: "Continue", act: () => this.embedRest() };
    this.listNotice.hide();
    try {
      const done = await this.loading.run((signal) =>
        this.service.embed(entries.slice(already).map(({ text }) => text), {
          model, inputType: "document", signal,
          onVector: (vector) => vectors.add(vector),
          onProgress: (count) => this.loading.progress(already + count, entries.length),
          onWait: (left) => this.loading.wait(left),
        }));
      list.milliseconds += performance.now() - began;
      if (list !== this.list) return false; // another one is being loaded
      const loaded = `${amount(entries.length, "line")} loaded in ${seconds(list.milliseconds)}`;
      if (done) this.listNotice.show(loaded + leftOut(list));
      else this.listNotice.show("Stopped.", { hint: partOf(list), ...resume });
      return done;
    } catch (error) {
      const where = error.place === undefined ? "" : `Line ${number(entries[already + error.place].line)}: `;
      if (list === this.list) this.listNotice.showError(error, { where, more: partOf(list), ...resume });
      return false;
    }
  }

  /** Searches the list; loads it first if it has changed. */
  async search() {
    const query = byId("query").value.trim().toWellFormed();
    this.searchNotice.hide();
    if (!query) {
      this.searchNotice.show("Enter what to search for.", { error: true });
      byId("query").focus();
      return;
    }
    if (!this.isLoaded() && !(await this.load())) return;
    const { list } = this;
    if (!list.vectors.count) {
      this.searchNotice.show("The list is still being loaded, and nothing of it can be searched yet.");
      return;
    }
    const sought = new VectorList(1);
    try {
      const began = performance.now();
      const done = await this.searching.run((signal) =>
        this.service.embed([query], {
          model: list.model, inputType: "query", signal,
          onVector: (vector) => sought.add(vector), onWait: (left) => this.searching.wait(left),
        }));
      if (done && list === this.list) this.draw(list, sought, performance.now() - began);
    } catch (error) {
      this.searchNotice.showError(error, { action: "Try again", act: () => this.search() });
    }
  }

  /** Whether the list that is entered is loaded, or at least a part of it, or will be. */
  isLoaded() {
    return this.list?.source === this.text.value && (this.list.vectors.count > 0 || this.loading.running);
  }

  draw(list, sought, embedding) {
    const began = performance.now();
    const best = list.vectors.nearest(sought, SHOWN);
    const searching = performance.now() - began;
    this.hits = best.map(({ place, score }) => ({ ...list.entries[place], score }));
    const rows = this.hits.map(({ text, line, score }, place) => {
      const bar = create("span", { className: "share", "aria-hidden": "true" }, create("i"));
      bar.firstChild.style.width = `${100 * Math.max(0, score)}%`;
      return create("tr", {},
        create("td", { className: "number", textContent: place + 1 }),
        create("td", { className: "number" }, bar, score.toFixed(4)),
        create("td", { className: "prose" }, spoken(text)),
        create("td", { className: "number", textContent: number(line) }));
    });
    byId("hits").tBodies[0].replaceChildren(...rows);
    const part = list.vectors.count < list.entries.length ? " loaded so far" : "";
    byId("search-facts").textContent =
      `Best ${rows.length} of ${amount(list.vectors.count, "line")}${part}. ` +
      `Query embedded in ${seconds(embedding)}, list searched in ${seconds(searching)}.`;
    byId("search-result").hidden = false;
  }

  /** The hits with their ranks. */
  table() {
    return [["rank", "similarity", "line", "sentence"],
      ...this.hits.map(({ text, line, score }, place) => [place + 1, score.toFixed(4), line, text])];
  }
}

function partOf({ entries, vectors }) {
  if (!vectors.count) return "Nothing is loaded yet.";
  return `${number(vectors.count)} of ${amount(entries.length, "line")} can be searched already.`;
}

function leftOut({ source }) {
  const all = sentences(source);
  const repeated = all.length - distinct(all).length;
  return repeated ? `; ${amount(repeated, "repeated line")} left out.` : ".";
}
