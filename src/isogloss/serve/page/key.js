// The form that asks for an API key when the service wants one. The key is kept in memory only.

import { byId } from "./elements.js";

let asked = null; // a promise of the key, while the form is open

/** The key that the user enters. `refused` says whether the service refused one already. */
export function askForKey(refused, signal) {
  asked ??= entered(refused);
  return signal ? Promise.race([asked, aborted(signal)]) : asked;
}

function entered(refused) {
  const form = byId("key-form");
  form.hidden = false;
  form.classList.toggle("error", refused);
  byId("key-text").textContent = refused
    ? "The service does not accept this key. Enter another one."
    : "This service needs an API key. Ask whoever runs it for one.";
  byId("key").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      const key = byId("key").value;
      byId("key").value = "";
      form.hidden = true;
      asked = null;
      document.querySelector("[role=tab][aria-selected=true]").focus(); // where work goes on, for the keyboard
      resolve(key);
    };
  });
}

const aborted = (signal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));
