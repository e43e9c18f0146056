// Ties the page together: opens the session, asks for what changes by itself, and knows the keys.
"use strict";

(() => {
  const { api, byId, announce, attempt, disable, age, Depths, Service, Quarantine, Message, Planner, Ledger } = window.craigConsole;
  const STATE_MS = 1000;
  const HIDDEN_MS = 15000;

  const depths = new Depths();
  const service = new Service();
  const message = new Message();
  const ledger = new Ledger();
  const quarantine = new Quarantine({
    onOpen: (key) => attempt(() => message.open(key)),
    onState: (state) => showState(state),
    onRead: () => ledger.load(),
  });
  const planner = new Planner(quarantine, () => attempt(() => quarantine.read()));
  let known = false;

  function showLease(reading, progress) {
    disable("hand-back", !reading || reading.ended !== null);
    if (progress) byId("lease").textContent = `Reading: ${progress[0]} of ${progress[1]} …`;
    else if (reading) {
      const left = Math.floor(reading.seconds_left);
      const held = reading.ended === null ? `Held for you: ${Math.floor(left / 60)} min ${String(left % 60).padStart(2, "0")} s left; nobody else can consume it.` : `Handed back: ${reading.ended}.`;
      byId("lease").textContent = `${reading.seen} of ${reading.depth} messages read. ${held}${reading.complete ? "" : " NOT ALL was seen: raise --max-scan."}`;
    }
  }

  function showState(state) {
    depths.show(state.depths);
    showLease(state.reading, state.reading_progress);
    planner.showRun(state.run);
    if (known) return;
    known = true;
    document.title = `${state.queue}: operator console`;
    byId("title").textContent = state.queue;
    byId("mode").textContent = state.allow_redrive ? "may redrive" : "read-only";
    byId("mode").classList.toggle("may-act", state.allow_redrive);
    byId("ledger-mode").textContent = state.ledger ? "judged by the audit ledger" : "no audit ledger";
    byId("who").textContent = state.who;
    planner.allow(state.allow_redrive);
    if (state.reading) attempt(() => quarantine.load(state.reading));
  }

  // One question after another, rarer while nobody looks; what fails is shown and asked again.
  async function watch(act) {
    for (;;) {
      try {
        await act();
      } catch (error) {
        byId("problem").textContent = error.message;
        byId("problem").hidden = false;
      }
      await new Promise((resolve) => setTimeout(resolve, document.hidden ? HIDDEN_MS : STATE_MS));
    }
  }

  const KEYS = {
    r: () => byId("read").click(),
    b: () => byId("hand-back").click(),
    "/": () => byId("condition").focus(),
    j: () => quarantine.move(1),
    k: () => quarantine.move(-1),
    x: () => quarantine.tick(),
    d: () => byId("dry-run").click(),
    s: () => byId("stop").click(),
    "?": () => byId("keys").showModal(),
  };

  byId("help").addEventListener("click", KEYS["?"]);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    if (event.target.closest("textarea, input[type=text], input[type=number], select, dialog[open]")) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  attempt(async () => {
    await api.open();
    showState(await api.get("state"));
    await ledger.load();
    watch(async () => showState(await api.get("state?since=" + depths.newest)));
    watch(async () => service.show(await api.get("service")));
  });
})();
