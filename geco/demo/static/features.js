// The tab Features: the principal components of every image, as colours.

import { about, h, look } from "./dom.js";
import { state, whenSeen } from "./state.js";
import { stage } from "./stage.js";

export function mount(element) {
  const model = h("select", { "aria-label": "Model", onchange: () => again() });
  model.append(...about.models.map((name) => h("option", { value: name }, name)));
  const grid = h("div", { class: "panels small" });
  element.replaceChildren(
    h(
      "p",
      { class: "hint" },
      "The three strongest principal components of the features of all images together, as red, green and blue: " +
        "places of one colour have similar features.",
    ),
    h("div", { class: "tools" }, h("label", { class: "toggle" }, "model", model)),
    grid,
  );

  async function refresh() {
    if (!state.images.length) {
      grid.replaceChildren(h("p", { class: "hint" }, "Upload images or take an example first."));
      return;
    }
    const answer = await look("components", { model: model.value });
    if (!answer) return;
    grid.replaceChildren(
      ...state.images.map((entry) => {
        const plain = stage({ label: () => "Image" });
        plain.show(entry.id);
        const picture = h("img", {
          class: "components",
          src: answer.pictures[entry.id] ?? "",
          alt: `Principal components of ${entry.name} as colours`,
          style: { "--ratio": String(entry.width / entry.height) },
        });
        const both = h("div", { class: "both" }, plain.element, picture);
        return h("figure", { class: "panel", "data-image": entry.id }, h("figcaption", {}, entry.name), both);
      }),
    );
    document.dispatchEvent(new CustomEvent("geco:components"));
  }

  const again = whenSeen(element, () => state.images.map((entry) => entry.id).join(), refresh);
}
