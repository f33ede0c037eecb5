// The JavaScript of the status pages. It refreshes them in the browser every few seconds without losing what the user has
// scrolled to, opened or selected. `page-frame.ts` puts it into each page.

/** Seconds between two refreshes of a visible page. */
const REFRESH_SECONDS = 5;
/** Seconds between two refreshes without JavaScript, each of the whole page. */
export const RELOAD_SECONDS = 60;

/**
 * `refresh` is the main function. Times are written in the user's zone, by the clock of the server. Only `main` of the
 * fetched page is parsed, because the content security policy forbids the rest.
 */
export const REFRESH_SCRIPT = `(() => {
  'use strict';
  const REFRESH_MS = ${REFRESH_SECONDS * 1_000};
  let waitMs = REFRESH_MS, timer = 0, isRefreshing = false, serverTime = 0, receivedAt = 0;
  const byId = (id) => document.getElementById(id);
  const twoDigits = (n) => String(n).padStart(2, '0');
  const formatSpan = (seconds) => {
    const s = Math.max(0, Math.round(seconds)), m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400);
    if (d > 0) return d + 'd ' + twoDigits(h % 24) + 'h';
    if (h > 0) return h + 'h ' + twoDigits(m % 60) + 'm';
    return m > 0 ? m + 'm ' + twoDigits(s % 60) + 's' : s + 's';
  };
  const dayOf = (t) => t.getFullYear() + '-' + twoDigits(t.getMonth() + 1) + '-' + twoDigits(t.getDate());
  const fullTime = (t) => dayOf(t) + ' ' + twoDigits(t.getHours()) + ':' + twoDigits(t.getMinutes()) + ':' + twoDigits(t.getSeconds());
  const zoneAt = (t) => { const m = -t.getTimezoneOffset(); return m === 0 ? 'UTC' : 'UTC' + (m < 0 ? '-' : '+') + Math.floor(Math.abs(m) / 60) + (m % 60 ? ':' + twoDigits(Math.abs(m) % 60) : ''); };
  const noteServerTime = () => { serverTime = Date.parse(byId('as-of').dateTime); receivedAt = performance.now(); };
  const formats = {
    ago: (t, at) => at - t < 1500 ? 'just now' : formatSpan((at - t) / 1000) + ' ago',
    in: (t, at) => t - at < 1000 ? 'now' : 'in ' + formatSpan((t - at) / 1000),
    for: (t, at) => formatSpan((at - t) / 1000),
    moment: (t, at) => dayOf(t) === dayOf(new Date(at)) ? fullTime(t).slice(11) : fullTime(t),
    zoned: (t) => fullTime(t) + ' ' + zoneAt(t),
  };
  const writeTimes = () => {
    const at = serverTime + performance.now() - receivedAt;
    for (const e of document.querySelectorAll('time[datetime]')) {
      const t = new Date(e.dateTime), format = formats[e.dataset.as], text = format ? format(t, at) : e.textContent;
      if (e.textContent !== text) e.textContent = text;
      if (e.title) e.title = fullTime(t) + ' ' + zoneAt(t);
    }
    byId('zone').textContent = 'all times in ' + (Intl.DateTimeFormat().resolvedOptions().timeZone || 'your zone');
  };
  const scheduleRefresh = () => { clearTimeout(timer); if (!document.hidden) timer = setTimeout(refresh, waitMs); };
  const isSelecting = () => { const s = getSelection(); return (s !== null && !s.isCollapsed); };
  const showLost = (text) => { const at = byId('lost'); at.textContent = text; at.hidden = text === ''; document.body.classList.toggle('cut-off', text !== ''); };
  const FOCUSABLE = 'a[href],summary,[tabindex]';
  const rememberView = (old) => {
    const folded = new Map([...old.querySelectorAll('details[id]')].map((e) => [e.id, e.open]));
    const scrolled = [...old.querySelectorAll('.wide[id]')].map((e) => [e.id, e.scrollLeft]);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const id = focused === null ? '' : focused.id || focused.parentElement?.id || '';
    const nth = focused === null ? -1 : [...old.querySelectorAll(FOCUSABLE)].indexOf(focused);
    return (fresh) => {
      for (const [id, open] of folded) { const e = byId(id); if (e) e.open = open; }
      for (const [id, left] of scrolled) { const e = byId(id); if (e) e.scrollLeft = left; }
      if (focused === null) return;
      const named = id === '' ? null : byId(id);
      const e = named === null ? fresh.querySelectorAll(FOCUSABLE)[nth] : named.matches('details') ? named.querySelector('summary') : named;
      e?.focus({ preventScroll: true });
    };
  };
  const replaceMain = (old, fresh) => {
    const restore = rememberView(old);
    const adopted = document.adoptNode(fresh);
    old.replaceWith(adopted);
    restore(adopted);
  };
  const showPage = (text) => {
    const [found] = /<main[^]*<\\/main>/.exec(text) || [''];
    const fresh = new DOMParser().parseFromString(found, 'text/html').querySelector('main');
    if (fresh === null) throw new Error('it sent no page of mine');
    const { title, icon } = fresh.dataset;
    replaceMain(document.querySelector('main'), fresh);
    noteServerTime();
    writeTimes();
    if (document.title !== title) document.title = title;
    document.querySelector('link[rel=icon]').href = icon;
  };
  const refresh = async () => {
    if (isRefreshing || document.hidden) return;
    if (isSelecting()) return scheduleRefresh();
    isRefreshing = true;
    try {
      const answer = await fetch(location.href, { cache: 'no-store', signal: AbortSignal.timeout(20000) });
      if (!answer.ok) throw new Error('it answers ' + answer.status);
      const text = await answer.text();
      if (!isSelecting()) showPage(text);
      showLost('');
      waitMs = REFRESH_MS;
    } catch (error) {
      const why = /^it /.test(error.message) ? error.message : 'no answer';
      showLost('Connection lost (' + why + '). What is shown is as of ' + byId('as-of').textContent + '; trying again.');
      waitMs = Math.min(waitMs * 2, 30000);
    } finally {
      isRefreshing = false;
      scheduleRefresh();
    }
  };
  document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else refresh(); });
  noteServerTime();
  writeTimes();
  scheduleRefresh();
})();
`;
