// The tab "Compare": cosine similarities of sentences, as a table in colors.

import { Notice, Work, amount, byId, create, exportButtons, spoken } from "./elements.js";
import { sentences } from "./lines.js";
import { VectorList } from "./vectors.js";

const MOST_SENTENCES = 60;
const LEVELS = 9; // of color
const STEPS = {
  ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity],
};

export class ComparePanel {
  constructor(service) {
    this.service = service;
    this.model = undefined;
    this.work = new Work("compare-work", "Comparing");
    this.notice = new Notice("compare-notice");
    this.text = byId("sentences");
    this.text.oninput = () => this.count();
    this.text.onkeydown = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("compare-form").requestSubmit();
    };
    byId("compare-form").onsubmit = (event) => {
      event.preventDefault();
      this.compare();
    };
    byId("stretch").onchange = () => this.color();
    exportButtons("matrix-exports", "similarities.tsv", () => this.table());
    const matrix = byId("matrix");
    matrix.onpointerover = ({ target }) => this.show(target.closest("td"));
    matrix.addEventListener("focusin", ({ target }) => this.show(target.closest("td")));
    matrix.onkeydown = (event) => this.move(event);
    this.count();
  }

  /** Takes another model. What began before the first was known goes on. */
  useModel(model) {
    const first = this.model === undefined;
    this.model = model;
    if (first) return;
    this.work.cancel();
    byId("compare-result").hidden = true;
  }

  count() {
    const { length } = sentences(this.text.value);
    byId("sentences-count").textContent = `${length} / ${MOST_SENTENCES} sentences`;
  }

  async compare() {
    const texts = sentences(this.text.value).map(({ text }) => text);
    const problem = countProblem(texts.length);
    this.notice.hide();
    if (problem) {
      this.work.cancel();
      this.notice.show(problem, { error: true });
      return;
    }
    const vectors = new VectorList(texts.length);
    const { model } = this;
    try {
      const done = await this.work.run((signal) =>
        this.service.embed(texts, {
          model, signal, onVector: (vector) => vectors.add(vector), onWait: (left) => this.work.wait(left),
        }));
      if (done) this.draw(texts, vectors);
    } catch (error) {
      const where = error.place === undefined ? "" : `Sentence ${error.place + 1}: `;
      this.notice.showError(error, { where, action: "Try again", act: () => this.compare() });
    }
  }

  draw(texts, vectors) {
    this.texts = texts;
    this.values = texts.map((_, row) => texts.map((_, column) => vectors.similarity(row, column)));
    this.columns = texts.map((text, place) =>
      create("th", { scope: "col", title: text }, `${place + 1} `, spoken(text, { className: "aside" })));
    this.rows = texts.map((text, row) => this.row(text, row));
    byId("matrix").replaceChildren(
      create("thead", {}, create("tr", {}, create("th", { scope: "col", textContent: "sentence" }), ...this.columns)),
      create("tbody", {}, ...this.rows),
    );
    this.shown = null;
    this.stop = this.cell(0, 1); // where the Tab key enters the table
    this.stop.tabIndex = 0;
    const help = "Point at or tap a number, or use the arrow keys in the table, to read both sentences.";
    byId("detail").replaceChildren(create("p", { className: "quiet", textContent: help }));
    this.color();
    byId("compare-result").hidden = false;
  }

  row(text, row) {
    const name = create("th", { scope: "row" }, numbered(row, text));
    const cells = this.values[row].map((value, column) => {
      const cell = create("td", { textContent: rounded(value, 2), tabIndex: -1 });
      Object.assign(cell.dataset, { row, column });
      return cell;
    });
    return create("tr", {}, name, ...cells);
  }

  cell(row, column) {
    return this.rows[row].cells[column + 1];
  }

  /** Colors the cells, from 0 to 1 or over the range of the values that are shown. */
  color() {
    const others = this.values.flatMap((row, place) => row.filter((_, column) => column !== place));
    const [low, high] = byId("stretch").checked ? [Math.min(...others), Math.max(...others)] : [0, 1];
    const level = (value) => Math.min(LEVELS, Math.max(0, Math.ceil(((value - low) / (high - low || 1)) * LEVELS)));
    this.values.forEach((row, one) =>
      row.forEach((value, two) => (this.cell(one, two).className = one === two ? "self" : `heat heat-${level(value)}`)));
    this.shown?.classList.add("marked");
    const colors = Array.from({ length: LEVELS + 1 }, (_, place) => create("i", { className: `heat-${place}` }));
    const scale = create("span", { className: "scale" }, ...colors);
    byId("matrix-legend").replaceChildren(
      create("span", { className: "key" }, `cosine similarity ${rounded(low, 2)}`, scale, rounded(high, 2)));
  }

  /** Shows the sentences of a cell in full. */
  show(cell) {
    if (!cell || cell === this.shown) return;
    const row = Number(cell.dataset.row);
    const column = Number(cell.dataset.column);
    for (const marked of byId("matrix").querySelectorAll(".marked")) marked.classList.remove("marked");
    for (const part of [cell, this.rows[row].cells[0], this.columns[column]]) part.classList.add("marked");
    this.stop.tabIndex = -1;
    cell.tabIndex = 0;
    this.shown = this.stop = cell;
    byId("detail").replaceChildren(
      create("p", { className: "value", textContent: rounded(this.values[row][column], 4) }),
      create("div", {}, ...[row, column].map((place) => numbered(place, this.texts[place]))),
    );
  }

  move(event) {
    const step = STEPS[event.key];
    const cell = event.target.closest("td");
    if (!step || !cell || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const inside = (place) => Math.min(this.texts.length - 1, Math.max(0, place));
    this.cell(inside(Number(cell.dataset.row) + step[0]), inside(Number(cell.dataset.column) + step[1])).focus();
  }

  /** The matrix, with the sentences in its first row and column. */
  table() {
    const rows = this.texts.map((text, row) => [text, ...this.values[row].map((value) => rounded(value, 4))]);
    return [["", ...this.texts], ...rows];
  }
}

function countProblem(count) {
  if (count < 2) return "Enter at least two sentences, one per line.";
  if (count <= MOST_SENTENCES) return "";
  return `These are ${count} sentences; a readable matrix has at most ${MOST_SENTENCES}. ` +
    `Remove ${amount(count - MOST_SENTENCES, "sentence")}, or use Search for long lists.`;
}

const numbered = (place, text) => create("div", { className: "numbered" }, create("b", { textContent: place + 1 }), spoken(text));

/** A number without a sign if it is zero. */
const rounded = (value, digits) => value.toFixed(digits).replace(/^-(0\.0+)$/, "$1");
