// Enhancements of the pages: live updates, search while typing, and values of charts under a cross.
// Inserted HTML comes from the same templates, which escape it; the policy forbids scripts in it.
"use strict";
(() => {
  const root = document.documentElement;
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("js");

  // Light or dark.
  find(".theme")?.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    event.preventDefault();
    root.dataset.theme = button.value;
    document.cookie = `theme=${button.value}; Path=/; Max-Age=31536000; SameSite=Lax`;
    all("button", button.form).forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
  });

  // How long ago: the same words as the server's.
  const thin = "\u202f";
  const length = (seconds) => {
    const [minutes, hours, days] = [60, 3600, 86400].map((unit) => Math.floor(seconds / unit));
    if (seconds < 60) return `${seconds}${thin}s`;
    if (hours < 1) return `${minutes}${thin}min`;
    if (days < 1) return `${hours}${thin}h` + (minutes % 60 ? ` ${minutes % 60}${thin}min` : "");
    return `${days}${thin}d` + (days < 10 && hours % 24 ? ` ${hours % 24}${thin}h` : "");
  };
  const age = () => {
    if (document.hidden) return;
    for (const time of all("time.ago")) {
      const seconds = Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000);
      const text = seconds < -60 ? `\u2212${length(-seconds)}` : length(Math.max(0, seconds));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(age, 5000);

  // Replaces HTML part by part, so that unchanged parts keep their focus and scroll position.
  const parse = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content;
  };
  const replaceRow = (id, html) => {
    const old = document.getElementById(`s${id}`);
    const next = parse(html).firstElementChild;
    if (!old || !next) return;
    old.className = next.className;
    [...next.children].forEach((cell, place) => {
      const before = old.children[place];
      if (!before || before.outerHTML === cell.outerHTML) return;
      const isSeen = before.textContent !== cell.textContent && before.classList.contains("players");
      if (isSeen) cell.classList.add("fresh");
      before.replaceWith(cell);
      if (isSeen) cell.addEventListener("animationend", () => cell.classList.remove("fresh"));
    });
  };
  const swap = (next, id) => {
    const [old, fresh] = [document.getElementById(id), next.getElementById(id)];
    if (!old || !fresh) return false;
    if (old.innerHTML === fresh.innerHTML) {
      for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of fresh.attributes) old.setAttribute(name, value);
      return true;
    }
    for (const open of all("details[id]", old)) {
      const other = next.getElementById(open.id);
      if (other) other.open = open.open;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const lists = ".scroll, .who, .events, .entries";
    const places = all(lists, old).map((list) => list.scrollTop);
    old.replaceWith(fresh);
    all(lists, fresh).forEach((list, place) => { list.scrollTop = places[place] ?? 0; });
    if (focused) {
      const same = focused.id ? document.getElementById(focused.id) : focused.href && all("a", fresh).find((a) => a.href === focused.href);
      if (same) same.focus({ preventScroll: true });
    }
    return true;
  };

  // Fetches a page of this site; the latest request wins.
  let asking = null;
  const fetchPage = async (address) => {
    asking?.abort();
    const mine = (asking = new AbortController());
    const answer = await fetch(address, { signal: mine.signal, headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const text = await answer.text();
    return new DOMParser().parseFromString(text, "text/html");
  };

  // The list, or the lists of one server. The form is not replaced, so that typing continues.
  const server = find("#server");
  const parts = server
    ? ["notice", "head", "ranges", "who", "events", "sessions", "extras", "rules", "deviations", "answer"]
    : ["notice", "totals", "list"];
  const form = find("#filter");
  const search = find("#q");
  const show = async (address, isNew) => {
    try {
      const next = await fetchPage(address);
      parts.forEach((id) => swap(next, id));
      document.title = next.title;
      if (isNew) history.replaceState(null, "", address);
      const back = find(".theme input[name=back]");
      if (back) back.value = address;
      age();
      listen();
    } catch (error) {
      if (error.name !== "AbortError" && isNew) location.assign(address);
    }
  };
  const address = () => {
    const query = new URLSearchParams(new FormData(form));
    for (const [key, value] of [...query]) if (!value || (key === "sort" && value === "state")) query.delete(key);
    const text = query.toString();
    return text ? `${form.getAttribute("action")}?${text}` : form.getAttribute("action");
  };
  if (form) {
    let timer = 0;
    form.addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => show(address(), true), event.target === search ? 150 : 0);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      show(address(), true);
    });
  }
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !isTyping && search) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && document.activeElement === search) {
      if (search.value) {
        search.value = "";
        form.requestSubmit();
      } else search.blur();
    }
  });

  // Live updates while the page is visible.
  const link = find("#link");
  const say = (text, isLost) => {
    if (!link) return;
    link.hidden = false;
    link.classList.toggle("lost", isLost);
    if (link.textContent !== text) link.textContent = text;
  };
  let source = null;
  let heard = "";
  let wasLost = false;
  const later = (wait, act) => {
    let timer = 0;
    return () => (timer ||= setTimeout(() => { timer = 0; act(); }, wait));
  };
  const refreshList = later(500, () => show(location.pathname + location.search, false));
  const refreshServer = later(2500, async () => {
    try {
      const next = await fetchPage(location.pathname + location.search);
      // Keep a tooltip that is shown.
      if (!find(".tip:not([hidden])")) swap(next, "past");
      parts.forEach((id) => swap(next, id));
      charts();
      age();
    } catch { /* The next change comes. */ }
  });
  // Events are stored some moments later.
  const refreshEvents = later(2500, () => show(location.pathname + location.search, false));
  const refresh = () => (server ? refreshServer() : find("#totals") ? refreshList() : refreshEvents());
  const wish = () => {
    if (server) return `/live/server/${encodeURIComponent(server.dataset.name)}?`;
    if (find("#list")?.dataset.live === "events") return "/live/events?";
    return find("#totals") && `/live/rows?ids=${all("#rows > tr").map((row) => row.id.slice(1)).join(",")}&`;
  };
  function listen() {
    const wanted = wish();
    if (document.hidden) return;
    if (source && source.readyState !== EventSource.CLOSED && heard === wanted) return;
    source?.close();
    heard = wanted;
    if (!wanted) {
      if (link) link.hidden = true;
      return;
    }
    const since = (server ?? find("#list"))?.dataset.at ?? "";
    source = new EventSource(`${wanted}since=${since}`);
    source.onopen = () => {
      say("live", false);
      // Updates in between were missed.
      if (wasLost) refresh();
      wasLost = false;
    };
    source.onerror = () => {
      wasLost = true;
      say("not live", true);
    };
    source.addEventListener("rows", (event) => {
      const news = JSON.parse(event.data);
      for (const row of news.rows) replaceRow(row.id, row.html);
      const totals = news.totals && parse(news.totals);
      if (totals) swap(totals, "totals");
      if (news.notice !== null) swap(parse(news.notice), "notice");
      age();
    });
    source.addEventListener("list", refresh);
    source.addEventListener("changed", refresh);
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
      wasLost = true;
    } else {
      age();
      listen();
    }
  });
  addEventListener("pagehide", () => source?.close());

  // Charts: a cross and its values, in all charts of the page at the same time, by mouse, finger or arrow keys.
  const SVG = "http://www.w3.org/2000/svg";
  function charts() {
    const drawn = all("svg.chart").filter((chart) => !chart.dataset.words).map((chart) => {
      const words = new Map();
      for (const hit of all(".hits path", chart)) {
        const title = find("title", hit);
        words.set(parseInt(hit.getAttribute("d").slice(1), 10), title.textContent);
        title.remove();
      }
      chart.dataset.words = "taken";
      const plot = find(".plot", chart);
      const cross = document.createElementNS(SVG, "line");
      for (const [name, value] of [["class", "cross"], ["y1", 0], ["y2", 1000]]) cross.setAttribute(name, value);
      const tip = document.createElement("div");
      tip.className = "tip";
      tip.hidden = true;
      chart.parentElement.append(tip);
      chart.setAttribute("tabindex", "0");
      return { chart, words, plot, cross, tip, buckets: Number(chart.dataset.buckets) };
    });
    const hide = () => drawn.forEach((one) => {
      one.cross.remove();
      one.tip.hidden = true;
    });
    const point = (bucket) => drawn.forEach((one) => {
      const text = one.words.get(bucket);
      one.tip.hidden = !text;
      if (!text) return one.cross.remove();
      one.cross.setAttribute("x1", bucket + 0.5);
      one.cross.setAttribute("x2", bucket + 0.5);
      one.plot.append(one.cross);
      one.tip.textContent = text;
      const width = one.chart.parentElement.clientWidth - one.tip.offsetWidth;
      const middle = one.chart.clientWidth * (bucket + 0.5) / one.buckets;
      const left = middle > one.chart.clientWidth / 2 ? middle - one.tip.offsetWidth : middle + 16;
      one.tip.style.transform = `translateX(${Math.max(0, Math.min(width, left))}px)`;
    });
    for (const one of drawn) {
      let at = one.buckets;
      one.chart.addEventListener("pointermove", (event) => {
        const box = one.chart.getBoundingClientRect();
        at = Math.max(0, Math.min(one.buckets - 1, Math.floor((event.clientX - box.left) / box.width * one.buckets)));
        point(at);
      });
      one.chart.addEventListener("pointerleave", hide);
      one.chart.addEventListener("blur", hide);
      one.chart.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (event.key === "Escape") return hide();
        if (!step) return;
        event.preventDefault();
        let next = at + step;
        while (next >= 0 && next < one.buckets && !one.words.has(next)) next += step;
        if (next >= 0 && next < one.buckets) point((at = next));
      });
    }
  }

  charts();
  listen();
})();
