const MINUTE = 60_000;

/** What a clock on the wall of a zone shows, asked of the platform's calendar: knows nothing of cron. */
function wallOf(zone: string): (at: number) => { date: string; minutes: number } {
  const format = new Intl.DateTimeFormat('en-CA', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
  return (at) => {
    const [date = '', time = ''] = format.format(at).split(', ');
    const [hours = 0, minutes = 0] = time.split(':').map(Number);
    return { date, minutes: hours * 60 + minutes };
  };
}

/** Moments in [from, to) at which a day's clock first shows a time or a later one: once a day, whatever the clock does. */
export function dailyTimes(zone: string, minuteOfDay: number, from: number, to: number, step = 15): number[] {
  const wall = wallOf(zone);
  const days = new Map<string, number>();
  const begin = Math.floor(from / (step * MINUTE)) * step * MINUTE;
  // From two days before: of the first of them only a part is seen.
  for (let at = begin - 2 * 1440 * MINUTE; at < to; at += step * MINUTE) {
    const { date, minutes } = wall(at);
    if (minutes >= minuteOfDay && !days.has(date)) days.set(date, at);
  }
  return [...days.values()].filter((at) => at >= from);
}

/** Moments in [from, to) at which the minutes of the wall's clock are a multiple of `every`. */
export function everyMinutes(zone: string, every: number, from: number, to: number): number[] {
  const wall = wallOf(zone);
  const found: number[] = [];
  for (let at = Math.ceil(from / MINUTE) * MINUTE; at < to; at += MINUTE) {
    if (every === 1 || wall(at).minutes % every === 0) found.push(at);
  }
  return found;
}
