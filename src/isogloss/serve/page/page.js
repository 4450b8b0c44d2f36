// The page: which models there are, and the tabs.

import { ComparePanel } from "./compare.js";
import { Notice, amount, byId, create, number } from "./elements.js";
import { askForKey } from "./key.js";
import { SearchPanel } from "./search.js";
import { Service } from "./service.js";

const service = new Service(askForKey);
const notice = new Notice("service-notice");
const panels = [new ComparePanel(service), new SearchPanel(service)];

/** Asks the service which models it has; until it answers, there is nothing to choose from. */
async function loadModels() {
  notice.hide();
  try {
    const starting = "The service is busy or still starting.";
    showModels(await service.models((left) => notice.show(`${starting} Trying again in ${amount(left, "second")}.`)));
    notice.hide();
  } catch (error) {
    notice.showError(error, { action: "Try again", act: loadModels });
  }
}

function showModels(models) {
  const select = byId("model");
  select.replaceChildren(...models.map(({ id }) => create("option", { value: id, textContent: id })));
  select.hidden = models.length === 1;
  byId("model-name").textContent = models.length === 1 ? models[0].id : "";
  byId("model-line").hidden = false;
  const choose = () => {
    const model = models[select.selectedIndex];
    const { dimension, max_tokens: most, precision } = model;
    const facts = [dimension && `${number(dimension)} dimensions`, most && `up to ${number(most)} tokens per text`, precision];
    byId("model-facts").textContent = facts.filter(Boolean).join(" · ");
    for (const panel of panels) panel.useModel(model);
  };
  select.onchange = choose;
  choose();
}

const tabs = [...document.querySelectorAll("[role=tab]")];

function openTab(tab) {
  for (const one of tabs) {
    one.setAttribute("aria-selected", one === tab);
    one.tabIndex = one === tab ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = one !== tab;
  }
  history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
}

for (const [place, tab] of tabs.entries()) {
  tab.onclick = () => openTab(tab);
  tab.onkeydown = ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (!step) return;
    const next = tabs.at((place + step) % tabs.length);
    openTab(next);
    next.focus();
  };
}

const asked = tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
if (asked) openTab(asked);
loadModels();
