// A running service: its supervisor tree and counters, shown anew only when something changed.
"use strict";

window.craigConsole.Service = class {
  #shown = "";

  show(found) {
    const { byId } = window.craigConsole;
    const text = JSON.stringify(found);
    if (text === this.#shown) return;
    this.#shown = text;
    byId("service-body").hidden = !found.tree;
    if (!found.configured) byId("service-state").textContent = "No service is named: start the console with --service HOST:PORT.";
    else if (found.failure) byId("service-state").textContent = found.failure;
    else byId("service-state").textContent = `${found.queue || "The service"} is ${found.state}.`;
    if (!found.tree) return;
    this.#showTree(found.tree);
    this.#showCounters(found.counters);
  }

  #showTree(nodes) {
    const { byId, el } = window.craigConsole;
    const lists = [el("ul")];
    for (const node of nodes) {
      lists.length = node.depth + 1;
      const item = el("li", {}, el("span", {}, node.id + " "), el("span", { class: "state state-" + node.state }, node.state),
        el("span", { class: "note" }, " " + node.words));
      lists[node.depth].append(item);
      const below = el("ul");
      item.append(below);
      lists.push(below);
    }
    byId("tree").replaceChildren(...lists[0].children);
    for (const list of byId("tree").querySelectorAll("ul:empty")) list.remove();
  }

  #showCounters(counters) {
    const { byId, el } = window.craigConsole;
    byId("counters").replaceChildren(
      ...Object.entries(counters).map(([name, count]) => el("div", {}, el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, String(count)))),
    );
  }
};
