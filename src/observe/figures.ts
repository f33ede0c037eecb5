/** `12,300`. */
export function countText(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}

/** `0.4`, `12.3`, `1,234`: three figures at most after the first. */
export function rateText(perSecond: number): string {
  return perSecond < 100 ? perSecond.toFixed(1) : countText(perSecond);
}

/** `87%`. */
export function percentText(part: number): string {
  return `${Math.round(part * 100)}%`;
}

function two(count: number): string {
  return String(count).padStart(2, '0');
}

/** `12s`, `2m 05s`, `1h 03m`, `4d 02h`: two units at most. */
export function durationText(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [minutes, hours, days] = [Math.floor(whole / 60), Math.floor(whole / 3_600), Math.floor(whole / 86_400)];
  if (days > 0) return `${days}d ${two(hours % 24)}h`;
  if (hours > 0) return `${hours}h ${two(minutes % 60)}m`;
  return minutes > 0 ? `${minutes}m ${two(whole % 60)}s` : `${whole}s`;
}
