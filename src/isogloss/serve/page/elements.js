// Parts of the page. Text only ever becomes text: nothing here takes HTML.

export const byId = (id) => document.getElementById(id);

/** A new element. Keys of `properties` are properties of the element, or attributes if they have a hyphen or are `role`. */
export function create(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Text of any language, in its own direction. */
export const spoken = (text, properties = {}) => create("span", { textContent: text, dir: "auto", ...properties });

/** A count with thousands separators, and the noun that goes with it. */
export const amount = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
export const number = (count) => count.toLocaleString("en-US");
export function seconds(milliseconds) {
  if (milliseconds < 1) return "less than 1 ms";
  return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** A box with a message, what to do about it, and at most one button. */
export class Notice {
  constructor(id) {
    this.box = byId(id);
  }

  hide() {
    this.box.hidden = true;
    this.box.replaceChildren();
  }

  show(message, { hint = "", action = "", act = null, error = false } = {}) {
    const parts = [create("p", { textContent: message, dir: "auto" })];
    if (hint) parts.push(create("p", { textContent: hint }));
    if (action) parts.push(create("button", { type: "button", textContent: action, onclick: act }));
    this.box.classList.toggle("error", error);
    this.box.replaceChildren(...parts);
    this.box.hidden = false;
  }

  /** Shows an error of `service.js`, or one that nobody expected; `where` goes before it, `more` after its hint. */
  showError(error, { where = "", more = "", ...button } = {}) {
    const hint = error.hint ?? "This is a mistake in the page. Reload it and try again.";
    this.show(where + error.message, { hint: `${hint} ${more}`, error: true, ...button });
  }
}

/** Work that can be cancelled: a progress bar, what is going on, and a button. Starting new work ends the one before. */
export class Work {
  constructor(id, label) {
    this.box = byId(id);
    this.label = label;
    this.bar = create("progress", { "aria-label": label });
    this.text = create("span", { className: "quiet" });
    this.waiting = create("span", { role: "status" });
    const cancel = create("button", { type: "button", textContent: "Cancel", onclick: () => this.cancel() });
    this.box.replaceChildren(this.bar, this.text, this.waiting, cancel);
    this.controller = null;
  }

  get running() {
    return this.controller !== null;
  }

  cancel() {
    this.controller?.abort();
  }

  /** Calls `task` with a signal; true when it has finished, false when it was cancelled. Its errors are passed on. */
  async run(task) {
    this.cancel();
    const controller = new AbortController();
    this.controller = controller;
    this.progress(0, 0);
    this.box.hidden = false;
    try {
      await task(controller.signal);
      return true;
    } catch (error) {
      if (controller.signal.aborted) return false;
      throw error;
    } finally {
      if (this.controller === controller) {
        this.controller = null;
        this.box.hidden = true;
      }
    }
  }

  progress(done, total) {
    this.waiting.textContent = "";
    this.text.textContent = total ? `${number(done)} of ${amount(total, "line")}` : `${this.label} …`;
    if (total) Object.assign(this.bar, { max: total, value: done });
    else this.bar.removeAttribute("value");
  }

  wait(left) {
    this.waiting.textContent = `The service is busy. Continuing in ${amount(left, "second")}.`;
  }
}

/** Buttons that copy or download a table; `table` gives its rows when one of them is pressed. */
export function exportButtons(id, filename, table) {
  const said = create("span", { className: "quiet", role: "status" });
  const copy = create("button", { type: "button", textContent: "Copy as TSV" });
  const download = create("button", { type: "button", textContent: "Download TSV" });
  copy.onclick = async () => {
    said.textContent = (await copied(tsv(table()))) ? "Copied." : "The browser does not allow copying. Use the download.";
  };
  download.onclick = () => {
    const address = URL.createObjectURL(new Blob([tsv(table())], { type: "text/tab-separated-values;charset=utf-8" }));
    create("a", { href: address, download: filename }).click();
    URL.revokeObjectURL(address);
    said.textContent = "";
  };
  byId(id).replaceChildren(copy, download, said);
}

const tsv = (rows) => rows.map((row) => row.map((cell) => String(cell).replace(/[\t\r\n]+/g, " ")).join("\t") + "\n").join("");

/** Whether text was copied. Browsers give pages without HTTPS no clipboard, but let them copy what is selected. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = create("textarea", { value: text, className: "aside" });
    const before = document.activeElement;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
  }
}
