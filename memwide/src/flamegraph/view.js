"use strict";
// Zoom by click, search by ctrl-f or the word above, reset by escape. Places of frames are shares of the whole, in data-a to data-b.
(function () {
  var svg = document.documentElement;
  var frames = Array.prototype.slice.call(document.querySelectorAll("g.f"));
  var status = document.getElementById("status");
  var CHARACTER = 7.4;
  function place(frame, from, to) {
    var a = +frame.dataset.a, b = +frame.dataset.b;
    var inside = b > from && a < to;
    frame.style.display = inside ? "" : "none";
    if (!inside) return;
    var left = Math.max(0, (a - from) / (to - from)), right = Math.min(1, (b - from) / (to - from));
    frame.classList.toggle("around", a < from || b > to);
    var rect = frame.querySelector("rect"), text = frame.querySelector("text");
    rect.setAttribute("x", left * 100 + "%");
    rect.setAttribute("width", (right - left) * 100 + "%");
    text.setAttribute("x", left * 100 + "%");
    var room = Math.floor((right - left) * svg.clientWidth / CHARACTER) - 1, name = frame.dataset.n;
    text.textContent = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 1) + "…";
  }
  var shown = [0, 1];
  function zoom(from, to) {
    shown = [from, to];
    frames.forEach(function (frame) { place(frame, from, to); });
  }
  function search() {
    var wanted = window.prompt("Show functions that match (regular expression):", "");
    if (wanted === null) return;
    var pattern;
    try { pattern = wanted === "" ? null : new RegExp(wanted); } catch (wrong) { status.textContent = String(wrong); return; }
    var parts = [];
    frames.forEach(function (frame) {
      var hit = pattern !== null && pattern.test(frame.dataset.n);
      frame.classList.toggle("hit", hit);
      if (hit) parts.push([+frame.dataset.a, +frame.dataset.b]);
    });
    // What lies above or below another hit counts once.
    parts.sort(function (one, other) { return one[0] - other[0] || other[1] - one[1]; });
    var sum = 0, end = 0;
    parts.forEach(function (part) {
      sum += Math.max(0, part[1] - Math.max(end, part[0]));
      end = Math.max(end, part[1]);
    });
    status.textContent = pattern === null ? "" : "matched: " + (sum * 100).toFixed(2) + " %";
  }
  svg.addEventListener("click", function (event) {
    var target = event.target, frame = target.closest ? target.closest("g.f") : null;
    if (target.id === "search") search();
    else if (frame) zoom(+frame.dataset.a, +frame.dataset.b);
    else zoom(0, 1);
  });
  window.addEventListener("keydown", function (event) {
    if (event.key === "f" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); search(); }
    if (event.key === "Escape") zoom(0, 1);
  });
  window.addEventListener("resize", function () { zoom(shown[0], shown[1]); });
  zoom(0, 1);
})();
