// The diagram: one row per message, one lane per status, effects right beside the quarantine.
"use strict";

(() => {
  const LANES = [
    { title: "Source", x: 8, width: 186, statuses: ["ready", "waiting"] },
    { title: "Quarantine", x: 206, width: 186, statuses: ["quarantined"] },
    { title: "Committed effects", x: 404, width: 156, statuses: [] },
    { title: "Acknowledged", x: 572, width: 174, statuses: ["acked"] },
    { title: "Expired", x: 758, width: 174, statuses: ["expired"] },
  ];
  const TOP = 44;
  const ROW = 67;
  const CHIP = { width: 162, height: 52 };
  const NAMESPACE = "http://www.w3.org/2000/svg";

  function shape(name, attributes, parent, text) {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    parent.append(element);
    return element;
  }

  // One line under the name: why the message is where it is, in the snapshot's own words.
  function detail(message) {
    const parts = [message.reason || message.status];
    if (message.next_at !== null) parts.push(`due ${message.next_at} s`);
    else if (message.status === "quarantined") parts.push(`since ${message.quarantined_at} s`);
    return parts.join(" · ");
  }

  window.craigReview.Diagram = class {
    constructor(svg) {
      this.svg = svg;
      this.chips = new Map();
      for (const lane of LANES) {
        const ledger = lane.statuses.length === 0;
        shape("rect", { class: ledger ? "lane lane-effects" : "lane", x: lane.x, y: 4, width: lane.width, height: 310, rx: 12 }, svg);
        shape("text", { class: "lane-title", x: lane.x + 12, y: 27 }, svg, lane.title);
      }
    }

    show(snapshot, budget, moved) {
      snapshot.messages.forEach((message, row) => {
        const chip = this.chips.get(message.name) || this.#chip(message.name, row);
        const lane = LANES.find((one) => one.statuses.includes(message.status));
        chip.group.style.transform = `translate(${lane.x + (lane.width - CHIP.width) / 2}px, ${TOP + row * ROW}px)`;
        chip.group.setAttribute("class", `chip is-${message.status}` + (message.name === moved ? " moved" : ""));
        chip.detail.textContent = detail(message);
        this.#receives(chip.receives, message.cycle_receives, budget);
        this.#effects(chip.effects, message);
      });
    }

    #chip(name, row) {
      const middle = TOP + row * ROW + CHIP.height / 2;
      shape("line", { class: "track", x1: 20, x2: 920, y1: middle, y2: middle }, this.svg);
      const effects = shape("g", { class: "effects", transform: `translate(${LANES[2].x + 12} ${middle})` }, this.svg);
      const group = shape("g", { class: "chip" }, this.svg);
      shape("rect", { class: "chip-box", width: CHIP.width, height: CHIP.height, rx: 10 }, group);
      shape("rect", { class: "chip-edge", width: 5, height: CHIP.height - 16, x: 8, y: 8, rx: 2.5 }, group);
      shape("text", { class: "chip-name", x: 22, y: 22 }, group, name);
      const chip = {
        group,
        effects,
        receives: shape("g", {}, group),
        detail: shape("text", { class: "chip-detail", x: 22, y: 41 }, group, ""),
      };
      this.chips.set(name, chip);
      return chip;
    }

    // The attempt budget of this cycle as dots, the used ones filled.
    #receives(group, used, budget) {
      group.replaceChildren();
      for (let i = 0; i < budget; i += 1) {
        const x = CHIP.width - 14 - (budget - 1 - i) * 10;
        shape("circle", { class: i < used ? "receive used" : "receive", cx: x, cy: 17, r: 3.2 }, group);
      }
    }

    // Filled: a committed effect. Hollow: a stored result was returned instead.
    #effects(group, message) {
      group.replaceChildren();
      const all = message.effects + message.dedup_hits;
      const step = Math.min(24, 128 / Math.max(all, 1));
      for (let i = 0; i < all; i += 1) {
        const filled = i < message.effects;
        shape("circle", { class: filled ? "effect" : "hit", cx: 8 + i * step, cy: 0, r: Math.min(8, step / 2 - 1) }, group);
      }
    }
  };
})();
