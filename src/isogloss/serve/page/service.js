// The API of the service that this page comes from.

import { decoded } from "./vectors.js";

const API = new URL("../v1/", import.meta.url);
const MOST_LINES = 128; // of a request: so many take a CPU about a second at worst
const MOST_CHARACTERS = 60_000;
const LONGEST_WAIT = 60; // seconds

/** An error in plain words. `text` is true if the service refused what was to be embedded. */
export class ServiceError extends Error {
  constructor(message, hint, text = false) {
    super(message);
    Object.assign(this, { hint, text });
  }
}

class Busy extends ServiceError {
  constructor(response) {
    super("The service is busy or still starting.", "Try again in a moment.");
    const given = Number(response.headers.get("Retry-After"));
    this.seconds = Math.min(LONGEST_WAIT, Math.max(1, Math.ceil(given) || 1));
  }
}

export class Service {
  /** `askForKey(refused, signal)` gives the key to use; `refused` says whether there was one already. */
  constructor(askForKey) {
    this.askForKey = askForKey;
    this.key = null;
  }

  /** The models that are served, as the API describes them. `onWait` gets the seconds that are left while it starts. */
  async models(onWait) {
    const { data } = await patiently(() => this.request("models"), onWait);
    const known = Array.isArray(data) && data.length && data.every((model) => typeof model?.id === "string");
    if (!known) throw unexpected("no models");
    return data;
  }

  /**
   * Embeds any number of texts, in requests as large as the service takes. `onVector` gets the vectors in the order of the
   * texts. While the service is busy, `onWait` gets the seconds that are left. `inputType` chooses one of the model's prompts,
   * if it has any. Without a model, the service takes the only one that it has.
   */
  async embed(texts, { model, inputType, signal, onVector, onProgress = () => {}, onWait = () => {} }) {
    let most = MOST_LINES;
    let size = most;
    let start = 0;
    onProgress(0);
    while (start < texts.length) {
      const batch = texts.slice(start, start + batchSize(texts, start, size));
      try {
        const answer = await this.request("embeddings", requestBody(batch, model, inputType), signal);
        vectorsOf(answer, batch.length).forEach(onVector);
        start += batch.length;
        size = Math.min(most, 2 * size);
        onProgress(start);
      } catch (error) {
        if (error instanceof Busy) {
          await wait(error.seconds, onWait, signal);
          onProgress(start);
        } else if (!(error.text && batch.length > 1)) {
          if (error.text) error.place = start;
          throw error;
        } else {
          most = Math.ceil(batch.length / 2);
        }
        size = Math.min(most, Math.ceil(batch.length / 2)); // there may be room for a smaller request
      }
    }
  }

  async request(path, body, signal) {
    for (;;) {
      const key = this.key;
      const response = await send(path, body, key, signal);
      if (response.status === 401) {
        if (key === this.key) this.key = await this.askForKey(key !== null, signal);
      } else if (response.ok) {
        return json(response, signal);
      } else {
        throw await refusal(response, signal);
      }
    }
  }
}

/** The result of a request that is repeated while the service is busy. */
async function patiently(request, onWait) {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (!(error instanceof Busy)) throw error;
      await wait(error.seconds, onWait);
    }
  }
}

async function send(path, body, key, signal) {
  const headers = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  if (key !== null) headers.Authorization = `Bearer ${key}`;
  const options = { method: body ? "POST" : "GET", headers, body, signal, cache: "no-store", credentials: "same-origin" };
  try {
    return await fetch(new URL(path, API), options);
  } catch (error) {
    throw signal?.aborted ? error : unreachable();
  }
}

async function json(response, signal) {
  let text;
  try {
    text = await response.text();
  } catch (error) {
    throw signal?.aborted ? error : unreachable();
  }
  try {
    return JSON.parse(text) ?? {};
  } catch {
    throw unexpected("no JSON");
  }
}

async function refusal(response, signal) {
  const { status } = response;
  if (status === 429 || (status === 503 && response.headers.has("Retry-After"))) return new Busy(response);
  let said = "";
  let param;
  try {
    const { error } = await json(response, signal);
    said = error?.message;
    param = error?.param;
  } catch (problem) {
    if (signal?.aborted) return problem;
  }
  said = typeof said === "string" && said ? said.replace(/[.\s]+$/, "") : `status ${status}`;
  if (status === 413) return new ServiceError(`The text is too long for the service: ${said}.`, "Use shorter lines.", true);
  if (status === 400 || status === 422) {
    const text = /^input(?!_)/.test(param ?? "input");
    return new ServiceError(`The service refused this: ${said}.`, text ? "Change or remove the text and try again." : "", text);
  }
  if (status === 403) return new ServiceError(`The service does not allow this: ${said}.`, "Ask whoever runs it for access.");
  if (status === 404) return new ServiceError(`Not found: ${said}.`, "Reload the page to see which models are served now.");
  if (status === 503) return new ServiceError(`The service is not ready: ${said}.`, "Try again in a moment.");
  return new ServiceError(`The service failed: ${said}.`, "Try again. If it keeps failing, its log says why.");
}

const unreachable = () =>
  new ServiceError("The service does not answer.", "Check that isogloss serve is still running, then try again.");
const unexpected = (what) =>
  new ServiceError(`The answer of the service cannot be read (${what}).`, "Check whether a proxy in between changes its answers.");

/** Number of texts from `start` that go into one request. */
function batchSize(texts, start, most) {
  let count = 0;
  let characters = 0;
  while (count < most && start + count < texts.length) {
    characters += texts[start + count].length;
    if (count && characters > MOST_CHARACTERS) break;
    count += 1;
  }
  return count;
}

function requestBody(input, model, inputType) {
  const prompted = model?.input_types?.includes(inputType);
  return JSON.stringify({ input, model: model?.id, encoding_format: "base64", input_type: prompted ? inputType : undefined });
}

function vectorsOf(answer, count) {
  const data = Array.isArray(answer.data) ? [...answer.data].sort((one, two) => one.index - two.index) : [];
  if (data.length !== count) throw unexpected("other embeddings than asked for");
  try {
    return data.map((one) => decoded(one.embedding));
  } catch {
    throw unexpected("embeddings that are not base64");
  }
}

/** Waits, and calls `onWait` each second with those that are left. */
async function wait(total, onWait, signal) {
  for (let left = total; left > 0; left--) {
    onWait(left);
    await new Promise((resolve) => {
      const timer = setTimeout(done, 1000);
      signal?.addEventListener("abort", done);
      function done() {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      }
    });
    signal?.throwIfAborted();
  }
}
