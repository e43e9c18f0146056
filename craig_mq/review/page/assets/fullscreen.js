// Expand experiment, Exit full screen: the browser's full screen where allowed, else the whole window.
"use strict";

window.craigReview.installFullScreen = (container, button) => {
  const expanded = () => document.fullscreenElement === container || container.classList.contains("expanded");

  function show() {
    button.textContent = expanded() ? "Exit full screen" : "Expand experiment";
    button.setAttribute("aria-pressed", String(expanded()));
  }

  async function leave() {
    container.classList.remove("expanded");
    if (document.fullscreenElement) await document.exitFullscreen();
    show();
    button.focus();
  }

  async function toggle() {
    if (expanded()) return leave();
    try {
      await container.requestFullscreen();
    } catch {
      container.classList.add("expanded");
    }
    return show();
  }

  button.addEventListener("click", toggle);
  document.addEventListener("fullscreenchange", () => {
    show();
    if (!document.fullscreenElement) button.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && container.classList.contains("expanded")) leave();
  });
  return toggle;
};
