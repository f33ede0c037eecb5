// Formats counts, rates, durations, ages and sizes for users.

/** Formats `12,300`. */
export function formatNumber(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

/** Formats `0.4`, `12.3`, `1,234`. */
export function formatRate(perSecond: number): string {
  return perSecond < 100 ? perSecond.toFixed(1) : formatNumber(perSecond);
}

/** Formats `87%`. */
export function formatPercent(part: number): string {
  return `${Math.round(part * 100)}%`;
}

function padTwo(count: number): string {
  return String(count).padStart(2, '0');
}

/** Formats `12s`, `2m 05s`, `1h 03m`, `4d 02h`: at most two units. */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  const [minutes, hours, days] = [Math.floor(total / 60), Math.floor(total / 3_600), Math.floor(total / 86_400)];
  if (days > 0) return `${days}d ${padTwo(hours % 24)}h`;
  if (hours > 0) return `${hours}h ${padTwo(minutes % 60)}m`;
  return minutes > 0 ? `${minutes}m ${padTwo(total % 60)}s` : `${total}s`;
}

/** Shown for an unknown or missing value. */
export const NONE = '–';

/** Formats `4m 12s ago`, `just now`. */
export function formatAge(at: number, now: number): string {
  const seconds = (now - at) / 1_000;
  return seconds < 1.5 ? 'just now' : `${formatDuration(seconds)} ago`;
}

/** Formats `in 4m 12s`, `now`. */
export function formatTimeUntil(at: number, now: number): string {
  const seconds = (at - now) / 1_000;
  return seconds < 1 ? 'now' : `in ${formatDuration(seconds)}`;
}

/** Formats `340 ms`, `1.2 s`, `2m 05s`. */
export function formatDelay(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1_000).toFixed(1)} s` : formatDuration(ms / 1_000);
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'] as const;

/** Formats `512 B`, `4.2 MB`. */
export function formatBytes(bytes: number): string {
  const step = bytes < 1_000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1_000 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[step]}`;
}

/** Formats `1 record`, `12 records`. */
export function formatCount(count: number, one: string, many = `${one}s`): string {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** Formats `2026-11-20 14:05:09` in UTC; a time of today without the date. */
export function formatTimestamp(at: number, now: number): string {
  const [text, today] = [new Date(at).toISOString(), new Date(now).toISOString().slice(0, 10)];
  return text.startsWith(today) ? text.slice(11, 19) : `${text.slice(0, 10)} ${text.slice(11, 19)}`;
}
