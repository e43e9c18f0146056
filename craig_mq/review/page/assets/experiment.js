// The experiment: ties the form, the player and the panels together. Every value shown was computed in Python.
"use strict";

(() => {
  const { source, Player, Diagram, Controls, Evidence, showPanels, installFullScreen } = window.craigReview;
  const byId = (id) => document.getElementById(id);
  const setup = JSON.parse(byId("setup").textContent);
  let view = null; // null while there is nothing to show: a bad value computes no run
  let asked = 0;

  const diagram = new Diagram(byId("diagram"));
  const player = new Player(show);
  const controls = new Controls(byId("parameters"), setup, () => load(controls.query()));
  const evidence = new Evidence(() => view && { view, index: player.index, link: link() }, setup.parameters.map((one) => [one.name, one.label]));
  const toggleFullScreen = installFullScreen(byId("experiment"), byId("expand"));

  function query() {
    const pairs = controls.query();
    if (player.index > 0) pairs.set("i", player.index);
    return pairs.toString();
  }

  function link() {
    return new URL(source.writeAddress(query()), location.href).href;
  }

  function disable(id, disabled) {
    byId(id).setAttribute("aria-disabled", String(disabled)); // keeps the focus, unlike `disabled`
  }

  function show({ announce }) {
    const { index, last } = player;
    const time = byId("time");
    time.max = last;
    time.value = index;
    byId("play").textContent = player.playing ? "Pause" : "Play";
    disable("play", !view || (player.atEnd && !player.playing));
    disable("next", !view || player.atEnd);
    disable("previous", !view || index === 0);
    disable("restart", !view);
    time.disabled = !view;
    document.body.classList.toggle("no-run", !view);
    if (view) {
      const event = view.run.events[index - 1];
      const moved = event ? event.message : undefined;
      diagram.show(view.run.snapshots[index], view.run.parameters.max_receives, moved);
      showPanels(view, index, moved);
      time.setAttribute("aria-valuetext", view.captions[index].split(":")[0]);
      if (announce) byId("announcer").textContent = view.captions[index];
      try {
        history.replaceState(null, "", source.writeAddress(query()));
      } catch {
        // a browser that limits address changes still shows the link below
      }
    } else {
      byId("caption").textContent = "No run is shown.";
    }
    evidence.show();
  }

  function refuse(message, field) {
    view = null;
    byId("problem").textContent = message;
    byId("problem").hidden = false;
    controls.mark(field);
    player.open(0, 0);
  }

  // Ask for the run a query names; the newest question wins.
  async function load(asking) {
    asked += 1;
    const mine = asked;
    const texts = controls.texts();
    byId("experiment").setAttribute("aria-busy", "true"); // what is shown is not yet what the form says
    player.pause();
    let answer;
    try {
      answer = await source.load(asking.toString().replace(/^[?#]/, ""));
    } catch (error) {
      answer = { error: { message: `No run: ${error.message}.` } };
    }
    if (mine !== asked) return;
    byId("experiment").setAttribute("aria-busy", "false");
    if (answer.error) {
      refuse(answer.error.message, answer.error.field);
      return;
    }
    view = answer;
    byId("problem").hidden = true;
    controls.mark();
    controls.fill(view.run.parameters, texts);
    player.open(view.transitions.length, view.step);
  }

  function press(id, act) {
    byId(id).addEventListener("click", () => {
      if (byId(id).getAttribute("aria-disabled") !== "true") act();
    });
  }

  press("next", () => player.go(player.index + 1));
  press("previous", () => player.go(player.index - 1));
  press("play", () => player.toggle());
  press("restart", () => player.go(0));
  byId("speed").addEventListener("change", (event) => player.pace(Number(event.target.value)));
  byId("time").addEventListener("input", (event) => player.go(Number(event.target.value), { announce: false }));
  byId("time").addEventListener("change", (event) => player.go(Number(event.target.value)));
  byId("help").addEventListener("click", () => byId("keys").showModal());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) player.pause();
  });
  for (const button of document.querySelectorAll("[data-lesson]")) {
    button.addEventListener("click", async () => {
      controls.fill(setup.lessons[button.dataset.lesson]);
      await load(controls.query());
      byId("experiment").scrollIntoView({ block: "start" });
      byId("experiment").focus({ preventScroll: true });
    });
  }

  const KEYS = {
    ArrowRight: "next",
    n: "next",
    ArrowLeft: "previous",
    p: "previous",
    " ": "play",
    k: "play",
    0: "restart",
    "?": "help",
  };

  // Whether the focused element uses this key itself.
  function taken(target, key) {
    if (target.closest("textarea, input[type=text], input[type=number], select, dialog[open]")) return true;
    if (key === " ") return target.closest("button, input, a, summary") !== null;
    return key.startsWith("Arrow") && target.closest("input, .scroller") !== null;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || taken(event.target, event.key)) return;
    if (event.key === "f") toggleFullScreen();
    else if (KEYS[event.key]) byId(KEYS[event.key]).click();
    else return;
    event.preventDefault();
  });
  window.addEventListener("hashchange", () => {
    // Only the offline file keeps its address in the fragment; plain anchors are not addresses.
    if (source.address() === location.hash && location.hash.includes("=")) load(source.address());
  });

  load(source.address());
})();
