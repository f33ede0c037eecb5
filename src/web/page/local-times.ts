/**
 * Runs in the browser, as a part of the page's script: writes times in the reader's zone, and lets ages go on between
 * two answers. `now` is the service's clock; the server has written the same in UTC, for those without scripts.
 */
export const LOCAL_TIMES = `
  const two = (n) => String(n).padStart(2, '0');
  const span = (seconds) => {
    const s = Math.max(0, Math.round(seconds)), m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400);
    if (d > 0) return d + 'd ' + two(h % 24) + 'h';
    if (h > 0) return h + 'h ' + two(m % 60) + 'm';
    return m > 0 ? m + 'm ' + two(s % 60) + 's' : s + 's';
  };
  const clockOf = (t) => two(t.getHours()) + ':' + two(t.getMinutes());
  const dayOf = (t) => t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate());
  const whole = (t) => dayOf(t) + ' ' + clockOf(t) + ':' + two(t.getSeconds());
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zoneAt = (t) => { const m = -t.getTimezoneOffset(); return m === 0 ? 'UTC' : 'UTC' + (m < 0 ? '-' : '+') + Math.floor(Math.abs(m) / 60) + (m % 60 ? ':' + two(Math.abs(m) % 60) : ''); };
  let served = 0, servedAt = 0;
  const began = (iso) => { served = Date.parse(iso); servedAt = performance.now(); };
  const now = () => served + performance.now() - servedAt;
  const forms = {
    ago: (t, at) => at - t < 1500 ? 'just now' : span((at - t) / 1000) + ' ago',
    in: (t, at) => t - at < 1000 ? 'now' : 'in ' + span((t - at) / 1000),
    for: (t, at) => span((at - t) / 1000),
    moment: (t, at) => dayOf(t) === dayOf(new Date(at)) ? whole(t).slice(11) : whole(t),
    zoned: (t) => whole(t) + ' ' + zoneAt(t),
  };
  const put = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  const writeTimes = (root) => {
    const at = now();
    for (const e of root.querySelectorAll('time[datetime]')) {
      const t = new Date(e.dateTime), form = forms[e.dataset.as];
      if (form) put(e, form(t, at));
      if (e.title) { const title = whole(t) + ' ' + zoneAt(t); if (e.title !== title) e.title = title; }
    }
    for (const e of root.querySelectorAll('[data-at]')) {
      const t = new Date(Number(e.dataset.at)), text = e.textContent;
      put(e, /^\\d\\d:\\d\\d/.test(text) ? clockOf(t) + text.slice(5) : /^\\d{4}-/.test(text) ? whole(t).slice(0, 16) + text.slice(16) : text);
    }
    const said = byId('zone');
    if (said !== null) put(said, 'all times in ' + (zone || 'your zone'));
  };
`;
