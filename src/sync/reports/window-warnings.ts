import type { ReportWindows } from '../../source/report-windows.ts';
import type { WindowRow } from '../../warehouse/own-tables.ts';
import type { Warning } from '../warnings.ts';

/** What a person has to know of windows as they are remembered; told by every run for as long as it is so. Pure. */
export function windowWarnings(rows: readonly WindowRow[], resource: string, { most }: ReportWindows): Warning[] {
  const here = rows.filter(({ dropped_at }) => dropped_at === null);
  const held = here.filter(({ held_at }) => held_at !== null);
  const capped = here.filter((row) => row.capped === 1);
  const differing = here.filter(({ totals }) => totals !== null);
  const [first] = held;
  return [
    ...told(held, {
      code: 'window_held',
      message: `${these(held)} kept as ${held.length === 1 ? 'it was' : 'they were'}, because by the service's answer too much would be deleted: ${first?.held ?? ''}`,
      hint: `look at the service; then content-sync deletes confirm ${resource} takes its next answer over, whatever it deletes`,
    }),
    ...told(capped, {
      code: 'window_capped',
      message: `${these(capped)} as large as the service lists at most (windows.most: ${most ?? '–'}): rows may be missing`,
      hint: 'set a finer windows.granularity, or fewer dimensions; windows.most only if the service lists more than that',
    }),
    ...told(differing, {
      code: 'window_total_differs',
      message: `${these(differing)} counted otherwise than the service tells: ${differing[0]?.totals ?? ''}`,
      hint: 'see _sync_windows; if totals count what is not listed, take them out of windows.totals, or accept: [totals]',
    }),
  ];
}

function told(rows: readonly WindowRow[], warning: Warning): Warning[] {
  return rows.length === 0 ? [] : [warning];
}

/** As in `3 windows are` and `the window of 2026-01-31 is`. */
function these(rows: readonly WindowRow[]): string {
  const days = rows.map(({ window_start }) => window_start);
  if (days.length === 1) return `the window of ${days[0] ?? ''} is`;
  return `${days.length} windows (${days.slice(0, 3).join(', ')}${days.length > 3 ? ', ...' : ''}) are`;
}
