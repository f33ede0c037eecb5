// The JavaScript of the pages, which refreshes them in the browser.

/** Seconds between two refreshes of a visible page. */
const REFRESH_SECONDS = 5;
/** Seconds between two refreshes without JavaScript, each of the whole page. */
export const RELOAD_SECONDS = 60;

/**
 * Runs in the browser. It writes times in the reader's zone, by the clock of the server, and updates ages. It fetches
 * the page again and replaces its content, but keeps scroll position, open folds and focus;
 * only `main` is parsed, because this page's policy forbids the rest. It waits while the tab is hidden or text is selected,
 * and reports a lost connection.
 */
export const REFRESH_SCRIPT = `(() => {
  'use strict';
  const every = ${REFRESH_SECONDS * 1_000};
  let wait = every, timer = 0, busy = false, served = 0, servedAt = 0;
  const byId = (id) => document.getElementById(id);
  const two = (n) => String(n).padStart(2, '0');
  const span = (seconds) => {
    const s = Math.max(0, Math.round(seconds)), m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400);
    if (d > 0) return d + 'd ' + two(h % 24) + 'h';
    if (h > 0) return h + 'h ' + two(m % 60) + 'm';
    return m > 0 ? m + 'm ' + two(s % 60) + 's' : s + 's';
  };
  const dayOf = (t) => t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate());
  const whole = (t) => dayOf(t) + ' ' + two(t.getHours()) + ':' + two(t.getMinutes()) + ':' + two(t.getSeconds());
  const zoneAt = (t) => { const m = -t.getTimezoneOffset(); return m === 0 ? 'UTC' : 'UTC' + (m < 0 ? '-' : '+') + Math.floor(Math.abs(m) / 60) + (m % 60 ? ':' + two(Math.abs(m) % 60) : ''); };
  const began = () => { served = Date.parse(byId('as-of').dateTime); servedAt = performance.now(); };
  const forms = {
    ago: (t, at) => at - t < 1500 ? 'just now' : span((at - t) / 1000) + ' ago',
    in: (t, at) => t - at < 1000 ? 'now' : 'in ' + span((t - at) / 1000),
    for: (t, at) => span((at - t) / 1000),
    moment: (t, at) => dayOf(t) === dayOf(new Date(at)) ? whole(t).slice(11) : whole(t),
    zoned: (t) => whole(t) + ' ' + zoneAt(t),
  };
  const writeTimes = () => {
    const at = served + performance.now() - servedAt;
    for (const e of document.querySelectorAll('time[datetime]')) {
      const t = new Date(e.dateTime), form = forms[e.dataset.as], text = form ? form(t, at) : e.textContent;
      if (e.textContent !== text) e.textContent = text;
      if (e.title) e.title = whole(t) + ' ' + zoneAt(t);
    }
    byId('zone').textContent = 'all times in ' + (Intl.DateTimeFormat().resolvedOptions().timeZone || 'your zone');
  };
  const later = () => { clearTimeout(timer); if (!document.hidden) timer = setTimeout(refresh, wait); };
  const selecting = () => { const s = getSelection(); return (s !== null && !s.isCollapsed); };
  const lost = (text) => { const at = byId('lost'); at.textContent = text; at.hidden = text === ''; document.body.classList.toggle('cut-off', text !== ''); };
  const reach = 'a[href],summary,[tabindex]';
  const keep = (old) => {
    const folded = new Map([...old.querySelectorAll('details[id]')].map((e) => [e.id, e.open]));
    const scrolled = [...old.querySelectorAll('.wide[id]')].map((e) => [e.id, e.scrollLeft]);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const id = focused === null ? '' : focused.id || focused.parentElement?.id || '';
    const nth = focused === null ? -1 : [...old.querySelectorAll(reach)].indexOf(focused);
    return (fresh) => {
      for (const [id, open] of folded) { const e = byId(id); if (e) e.open = open; }
      for (const [id, left] of scrolled) { const e = byId(id); if (e) e.scrollLeft = left; }
      if (focused === null) return;
      const named = id === '' ? null : byId(id);
      const e = named === null ? fresh.querySelectorAll(reach)[nth] : named.matches('details') ? named.querySelector('summary') : named;
      e?.focus({ preventScroll: true });
    };
  };
  const exchange = (old, fresh) => {
    const restore = keep(old);
    const made = document.adoptNode(fresh);
    old.replaceWith(made);
    restore(made);
  };
  const showPage = (text) => {
    const [found] = /<main[^]*<\\/main>/.exec(text) || [''];
    const fresh = new DOMParser().parseFromString(found, 'text/html').querySelector('main');
    if (fresh === null) throw new Error('it sent no page of mine');
    const { title, icon } = fresh.dataset;
    exchange(document.querySelector('main'), fresh);
    began();
    writeTimes();
    if (document.title !== title) document.title = title;
    document.querySelector('link[rel=icon]').href = icon;
  };
  const refresh = async () => {
    if (busy || document.hidden) return;
    if (selecting()) return later();
    busy = true;
    try {
      const answer = await fetch(location.href, { cache: 'no-store', signal: AbortSignal.timeout(20000) });
      if (!answer.ok) throw new Error('it answers ' + answer.status);
      const text = await answer.text();
      if (!selecting()) showPage(text);
      lost('');
      wait = every;
    } catch (error) {
      const why = /^it /.test(error.message) ? error.message : 'no answer';
      lost('Connection lost (' + why + '). What is shown is as of ' + byId('as-of').textContent + '; trying again.');
      wait = Math.min(wait * 2, 30000);
    } finally {
      busy = false;
      later();
    }
  };
  document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else refresh(); });
  began();
  writeTimes();
  later();
})();
`;
