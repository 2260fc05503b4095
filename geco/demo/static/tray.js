// The tray above the tabs: examples, uploads, and the images of this page.

import { about, addressOf, h } from "./dom.js";
import { act, state, uploadAll, watch } from "./state.js";
import { fileButton, folderButton, takesFiles } from "./stage.js";

const EXAMPLES = { face: "a face", tail: "a tail that is hidden", species: "another species" };

function thumbnail(entry) {
  const image = h("img", { alt: entry.name, draggable: false });
  addressOf(entry.id).then(
    (address) => (image.src = address),
    () => {},
  );
  const remove = h(
    "button",
    { "aria-label": `remove ${entry.name}`, title: "Remove", onclick: () => act("remove", { image: entry.id }) },
    "✕",
  );
  return h("li", { "data-image": entry.id }, image, h("span", {}, entry.name), remove);
}

export function mount(element) {
  const examples = about.examples.map((name) =>
    h("button", { "data-example": name, onclick: () => act("example", { name }) }, EXAMPLES[name] ?? name),
  );
  const list = h("ul", { class: "thumbnails", "aria-label": "Images" });
  const message = h("p", { class: "geco-message", role: "alert", hidden: true });
  element.replaceChildren(
    h(
      "div",
      { class: "tools" },
      fileButton("Upload images", undefined, true),
      folderButton("Upload a folder"),
      h("span", { class: "hint" }, "or drop, paste, or try"),
      ...examples,
    ),
    list,
    message,
  );
  takesFiles(element, undefined);
  let drawn = "";
  watch(() => {
    const now = state.images.map((entry) => entry.id).join();
    if (now !== drawn) list.replaceChildren(...state.images.map(thumbnail));
    drawn = now;
  });
}

export function listenToPastes() {
  document.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    const slot = document.activeElement?.closest?.(".panel")?.dataset.slot;
    uploadAll(files, slot === undefined ? undefined : Number(slot));
  });
}
