// Shows the predictions, lets points be moved or hidden, and saves what was changed or checked as COCO keypoints.
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const [X, Y, STATE, UNSURE, SIDE] = [0, 1, 2, 3, 4];
const UNKNOWN = 0, HIDDEN = 1, VISIBLE = 2;
const SVG = "http://www.w3.org/2000/svg";
const byId = (id) => document.getElementById(id);
const chosen = new Set(); // numbers of the images that were changed or checked

function create(tag, attributes, parent, text) {
  const drawn = ["svg", "circle", "line", "text", "image", "g", "title"].includes(tag);
  const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

// From blue (sure) to vermillion (unsure): told apart with every common colour blindness.
function colour(unsure) {
  const mix = (a, b) => Math.round(a + (b - a) * Math.min(1, unsure * 1.5));
  return `rgb(${mix(86, 213)},${mix(180, 94)},${mix(233, 0)})`;
}

function errors(image, keypoint) {
  const points = image.animals.flatMap((animal) => (keypoint < 0 ? animal : [animal[keypoint]]));
  return points.reduce((sum, point) => sum + (point[STATE] ? point[UNSURE] : 0.5), 0);
}

function note(number) {
  chosen.add(number);
  byId("card-" + number).classList.add("changed");
  byId("save").disabled = false;
  byId("count").textContent = chosen.size + (chosen.size === 1 ? " image to save" : " images to save");
}

function card(image, number) {
  const box = create("article", { class: "card", id: "card-" + number });
  const heading = create("h2", {}, box, image.name);
  const sides = image.animals.flatMap((animal) => animal.flatMap((p, k) => (p[SIDE] && p[STATE] === VISIBLE ? [data.names[k]] : [])));
  if (sides.length) {
    const badge = create("span", { class: "badge", title: sides.join(", ") }, null, "left/right unsure");
    heading.before(badge);
  }
  const scale = Math.max(image.width, image.height) / 480;
  const svg = create("svg", { viewBox: `0 0 ${image.width} ${image.height}`, role: "group", "aria-label": "keypoints on " + image.name }, box);
  create("image", { href: image.picture, width: image.width, height: image.height }, svg);
  image.animals.forEach((animal) => {
    const lines = data.edges.map((edge) => [edge, create("line", { stroke: "#fff", "stroke-opacity": 0.7, "stroke-width": 1.5 * scale }, svg)]);
    const marks = animal.map((point, k) => {
      const label = create("text", { "font-size": 11 * scale, "stroke-width": 2.5 * scale }, svg, data.names[k]);
      const mark = create("circle", { class: "point", r: 5 * scale, "stroke-width": 1.5 * scale, tabindex: 0, role: "button" }, svg);
      create("title", {}, mark);
      return { mark, label };
    });
    const draw = () => {
      animal.forEach((point, k) => {
        const { mark, label } = marks[k];
        const placed = point[X] !== null && point[STATE] !== UNKNOWN;
        const only = +byId("keypoint").value;
        mark.style.display = placed && (only < 0 || only === k) ? "" : "none";
        label.style.display = mark.style.display || (byId("names").checked && point[STATE] === VISIBLE ? "" : "none");
        if (!placed) return;
        mark.setAttribute("cx", point[X]);
        mark.setAttribute("cy", point[Y]);
        mark.style.fill = colour(point[UNSURE]);
        mark.style.stroke = point[STATE] === HIDDEN ? colour(point[UNSURE]) : "";
        mark.classList.toggle("hidden", point[STATE] === HIDDEN);
        const about = `${data.names[k]}: ${point[STATE] === HIDDEN ? "not visible, " : ""}wrong with ${Math.round(100 * point[UNSURE])} %`;
        mark.setAttribute("aria-label", about);
        mark.firstChild.textContent = about;
        label.setAttribute("x", point[X] + 7 * scale);
        label.setAttribute("y", point[Y] + 4 * scale);
      });
      lines.forEach(([[a, b], line]) => {
        const both = animal[a][STATE] === VISIBLE && animal[b][STATE] === VISIBLE && +byId("keypoint").value < 0;
        line.style.display = both ? "" : "none";
        if (!both) return;
        line.setAttribute("x1", animal[a][X]);
        line.setAttribute("y1", animal[a][Y]);
        line.setAttribute("x2", animal[b][X]);
        line.setAttribute("y2", animal[b][Y]);
      });
    };
    const move = (k, x, y) => {
      animal[k][X] = Math.min(image.width - 0.01, Math.max(0, x));
      animal[k][Y] = Math.min(image.height - 0.01, Math.max(0, y));
      animal[k][STATE] = VISIBLE;
      animal[k][UNSURE] = 0;
      draw();
      note(number);
    };
    const toggle = (k) => {
      animal[k][STATE] = animal[k][STATE] === HIDDEN ? VISIBLE : HIDDEN;
      animal[k][UNSURE] = 0;
      draw();
      note(number);
    };
    marks.forEach(({ mark }, k) => {
      mark.addEventListener("pointerdown", (event) => {
        mark.setPointerCapture(event.pointerId);
        const place = (e) => new DOMPoint(e.clientX, e.clientY).matrixTransform(svg.getScreenCTM().inverse());
        const start = place(event);
        let dragging = false;
        const drag = (e) => {
          const now = place(e);
          dragging = dragging || Math.hypot(now.x - start.x, now.y - start.y) > 2 * scale; // a click is no drag
          if (dragging) move(k, now.x, now.y);
        };
        mark.addEventListener("pointermove", drag);
        mark.addEventListener("pointerup", () => mark.removeEventListener("pointermove", drag), { once: true });
      });
      mark.addEventListener("dblclick", () => toggle(k));
      mark.addEventListener("keydown", (event) => {
        const step = event.shiftKey ? 10 : 1;
        const way = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[event.key];
        if (way) move(k, animal[k][X] + way[0], animal[k][Y] + way[1]);
        else if (event.key === "h") toggle(k);
        else return;
        event.preventDefault();
      });
    });
    draw();
    redraw.push(draw);
  });
  const label = create("label", {}, box);
  const tick = create("input", { type: "checkbox" }, label);
  label.append(" checked");
  tick.addEventListener("change", () => tick.checked && note(number));
  return box;
}

const redraw = [];
const boxes = data.images.map(card);

function show() {
  const keypoint = +byId("keypoint").value;
  const order = data.images.map((image, number) => number);
  order.sort((a, b) => errors(data.images[b], keypoint) - errors(data.images[a], keypoint));
  const sided = (image) => image.animals.some((animal) => animal.some((p, k) => p[SIDE] && p[STATE] === VISIBLE && (keypoint < 0 || k === keypoint)));
  byId("cards").replaceChildren(...order.filter((i) => !byId("sides").checked || sided(data.images[i])).map((i) => boxes[i]));
  redraw.forEach((draw) => draw());
}

function corrections() {
  const images = [], annotations = [];
  [...chosen].sort((a, b) => a - b).forEach((number) => {
    const image = data.images[number];
    images.push({ id: number + 1, file_name: image.path, width: image.width, height: image.height });
    image.animals.forEach((animal) => {
      const keypoints = animal.flatMap((p) => (p[X] === null || p[STATE] === UNKNOWN ? [0, 0, 0] : [p[X], p[Y], p[STATE]]));
      annotations.push({ id: annotations.length + 1, image_id: number + 1, category_id: 1, keypoints, num_keypoints: animal.filter((p) => p[STATE] === VISIBLE).length, iscrowd: 0 });
    });
  });
  const category = { id: 1, name: data.category, keypoints: data.names, skeleton: data.edges.map((edge) => edge.map((end) => end + 1)) };
  return { info: { keypoint_origin: "corner" }, images, annotations, categories: [category] };
}

data.names.forEach((name, k) => create("option", { value: k }, byId("keypoint"), name));
const rest = data.total > data.images.length ? `; ${data.total - data.images.length} less uncertain ones are not on this page` : "";
byId("summary").textContent = `${data.images.length} images, most uncertain first${rest}. Blue points are sure, red ones unsure, dashed rings not visible.`;
data.next.forEach((name) => {
  const item = create("li", {}, byId("next").querySelector("ol"));
  const number = data.images.findIndex((image) => image.name === name);
  if (number < 0) item.textContent = name;
  else create("a", { href: "#card-" + number }, item, name);
});
byId("next").hidden = !data.next.length;
["keypoint", "sides", "names"].forEach((id) => byId(id).addEventListener("change", show));
byId("save").addEventListener("click", () => {
  const link = create("a", { download: "corrections.json" });
  link.href = URL.createObjectURL(new Blob([JSON.stringify(corrections())], { type: "application/json" }));
  link.click();
});
show();
