// The tab Parts: paint parts on one image, see them on all.

import { about, addressOf, h, post } from "./dom.js";
import { known, state, whenSeen } from "./state.js";
import { stage } from "./stage.js";

const painting = { image: "", strokes: [], part: 1, size: 4, cursor: null }; // size in % of the longer side

export function mount(element) {
  const canvas = h("canvas", { class: "paint", tabIndex: 0, role: "application" });
  const image = h("img", { class: "pixels", alt: "", draggable: false });
  const board = h("div", { class: "stage" }, image, canvas);
  const choice = h("select", { "aria-label": "Image to paint on", onchange: () => choose(choice.value) });
  const grid = h("div", { class: "panels small" });
  const brushes = [...Array(about.parts).keys()].map((i) => brush(i + 1, `part ${i + 1}`, about.colours[i]));
  brushes.push(brush(0, "background", "#ffffff"));
  const size = h("input", { type: "range", min: "1", max: "12", value: "4", oninput: () => (painting.size = +size.value) });
  const empty = h("p", { class: "hint" }, "Upload images or take an example first.");
  const body = h(
    "div",
    { class: "split" },
    h("figure", { class: "panel" }, h("figcaption", {}, h("span", {}, "Paint here"), choice), board),
    grid,
  );
  element.replaceChildren(
    h(
      "p",
      { class: "hint" },
      "Paint over two or three parts, such as an ear, the nose and the eyes. What is not painted counts as background, " +
        "unless you paint some background yourself. Keys: arrows move the brush, Space paints.",
    ),
    h(
      "div",
      { class: "tools", role: "toolbar", "aria-label": "Brush" },
      ...brushes,
      h("label", { class: "toggle" }, "brush", size),
      h("button", { onclick: () => change(() => painting.strokes.pop()) }, "Undo stroke"),
      h("button", { onclick: () => change(() => (painting.strokes = [])) }, "Clear"),
    ),
    empty,
    body,
  );

  function brush(part, text, colour) {
    const radio = h("input", { type: "radio", name: "geco-brush", onchange: () => (painting.part = part) });
    radio.checked = part === painting.part;
    return h("label", { class: "toggle" }, radio, h("i", { class: "swatch", style: { "--colour": colour } }), text);
  }

  function choose(identity) {
    Object.assign(painting, { image: identity, strokes: [], cursor: null });
    refresh();
  }

  function change(how) {
    how();
    sketch();
    label();
  }

  const tiles = new Map();
  let asked = 0;

  async function label() {
    const turn = ++asked;
    const parts = painting.strokes.some((stroke) => stroke.part > 0);
    const answer = parts
      ? await post("parts", { image: painting.image, strokes: painting.strokes })
      : { pictures: {} };
    if (!answer || turn !== asked) return;
    for (const [identity, tile] of tiles) {
      tile.over(answer.pictures[identity] ?? "", `Parts found in ${known(identity)?.name}`);
    }
    document.dispatchEvent(new CustomEvent("geco:parts"));
  }

  function sketch() {
    const about_ = known(painting.image);
    if (!about_) return;
    const scale = 640 / Math.max(about_.width, about_.height);
    canvas.width = about_.width * scale;
    canvas.height = about_.height * scale;
    const context = canvas.getContext("2d");
    context.lineCap = context.lineJoin = "round";
    for (const stroke of painting.strokes) {
      context.strokeStyle = stroke.part ? about.colours[stroke.part - 1] : "#ffffff";
      context.globalAlpha = 0.75;
      context.lineWidth = 2 * stroke.radius * scale;
      context.beginPath();
      stroke.points.forEach(([x, y], i) => (i ? context.lineTo(x * scale, y * scale) : context.moveTo(x * scale, y * scale)));
      if (stroke.points.length === 1) context.lineTo(stroke.points[0][0] * scale + 0.01, stroke.points[0][1] * scale);
      context.stroke();
    }
    if (painting.cursor) {
      const [x, y] = painting.cursor;
      context.globalAlpha = 1;
      context.lineWidth = 2;
      context.strokeStyle = "#000000";
      context.beginPath();
      context.arc(x * scale, y * scale, radius() * scale, 0, 7);
      context.stroke();
    }
  }

  function radius() {
    const { width, height } = known(painting.image);
    return (painting.size / 200) * Math.max(width, height);
  }

  function place(event) {
    const box = canvas.getBoundingClientRect();
    const { width, height } = known(painting.image);
    return [((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height];
  }

  let stroke = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (!known(painting.image)) return;
    event.preventDefault();
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    painting.cursor = null;
    stroke = { part: painting.part, radius: radius(), points: [place(event)] };
    painting.strokes.push(stroke);
    sketch();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!stroke) return;
    stroke.points.push(place(event));
    sketch();
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => {
      if (stroke) label();
      stroke = null;
    });
  }
  canvas.addEventListener("keydown", (event) => {
    const chosen = known(painting.image);
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (!chosen) return;
    painting.cursor ??= [chosen.width / 2, chosen.height / 2];
    if (event.key in steps) {
      const step = 0.02 * Math.max(chosen.width, chosen.height);
      painting.cursor = painting.cursor.map((value, axis) => value + steps[event.key][axis] * step);
      sketch();
    } else if (event.key === " ") {
      change(() => painting.strokes.push({ part: painting.part, radius: radius(), points: [painting.cursor] }));
    } else return;
    event.preventDefault();
  });

  async function refresh() {
    if (!known(painting.image)) {
      Object.assign(painting, { image: state.images[0]?.id ?? "", strokes: [], cursor: null });
    }
    const chosen = known(painting.image);
    empty.hidden = Boolean(chosen);
    body.hidden = !chosen;
    choice.replaceChildren(...state.images.map((entry) => h("option", { value: entry.id }, entry.name)));
    choice.value = painting.image;
    tiles.clear();
    grid.replaceChildren(
      ...state.images.map((entry) => {
        const tile = stage({ label: () => "Parts" });
        tiles.set(entry.id, tile);
        tile.show(entry.id);
        return h("figure", { class: "panel", "data-image": entry.id }, h("figcaption", {}, entry.name), tile.element);
      }),
    );
    if (!chosen) return;
    board.style.setProperty("--ratio", String(chosen.width / chosen.height));
    image.alt = `Paint parts on ${chosen.name}`;
    canvas.setAttribute("aria-label", image.alt);
    image.src = await addressOf(chosen.id).catch(() => "");
    sketch();
    label();
  }

  whenSeen(element, () => state.images.map((entry) => entry.id).join(), refresh);
}
