import { filesViews } from './files.ts';
import { changesViews } from './history/changes.ts';
import { historyViews } from './history/history.ts';
import { statesViews } from './history/states.ts';
import { liveViews } from './live.ts';
import { type ExistingColumn, type PlannedView, planView } from './planned-view.ts';
import { windowViews } from './report-windows.ts';
import { summaryViews } from './summary/summary.ts';
import type { ViewModel } from './view-model.ts';
import { cutName, type View } from './view.ts';
import { dictionaryView } from './whole/dictionary.ts';
import { freshnessView } from './whole/freshness.ts';
import { calendarView, deletesView, schemaLogView } from './whole/own-views.ts';

/** Views of one kind; `above` holds those of the kinds before, by the name that they would have if it were free. */
export type ViewKind = (model: ViewModel, above: ReadonlyMap<string, PlannedView>) => View[];

/** All kinds, each above those that its views stand on. */
const VIEW_KINDS: readonly ViewKind[] = [
  liveViews,
  historyViews,
  changesViews,
  statesViews,
  summaryViews,
  filesViews,
  windowViews,
  freshnessView,
  deletesView,
  calendarView,
  schemaLogView,
  dictionaryView,
];

/** The views that the database has, and the names that ours may not have. */
export interface ExistingViews {
  /** Columns of our views in their order, by view; none for one of which nothing is stored. */
  columns: ReadonlyMap<string, readonly ExistingColumn[]>;
  /** Names of tables, also of some that are still to come, and of views that are none of ours, in lower case. */
  taken: ReadonlySet<string>;
  /** Views that keep the types of their columns, because objects of others depend on them. */
  held: ReadonlySet<string>;
  /** True if types may become narrower, as the tables have them. */
  mayNarrow: boolean;
}

/** All views of a source, in the order in which they can be made. */
export function planViews(
  resources: Omit<ViewModel, 'existing'>,
  { columns, taken, held, mayNarrow }: ExistingViews,
): PlannedView[] {
  const model = { ...resources, existing: columns };
  const planned = new Map<string, PlannedView>();
  const names = new Set<string>();
  for (const kind of VIEW_KINDS) {
    for (const view of kind(model, planned)) {
      const name = freeName(view.name, new Set([...taken, ...names]));
      // What stands under a better name may be another view, which has it rightly.
      const stood = namesBefore(view.name, name).filter((each) => columns.has(each) && !names.has(each));
      const [former] = columns.has(name) ? [] : stood;
      names.add(name);
      const existing = columns.get(former ?? name) ?? [];
      const whole = planView(named(view, name), existing, { held: held.has(name), mayNarrow }, model.dialect);
      planned.set(view.name, former === undefined ? whole : { ...whole, former });
    }
  }
  return [...planned.values()];
}

/** Functions are named apart from tables and views. */
function named(view: View, name: string): View {
  return view.asOf === undefined ? { ...view, name } : { ...view, name, asOf: freeName(view.asOf, new Set()) };
}

/** True if a view has this name for want of `wanted`, which was too long or not free; or is called so. */
export function isNameOf(name: string, wanted: string): boolean {
  const free = freeName(wanted, new Set());
  return name === free || name === freeName(free, new Set([free]));
}

/** The names that a view would rather have than `name`, from the best one on. */
function namesBefore(wanted: string, name: string): string[] {
  const cut = cutName(wanted);
  return cut === name ? [] : [cut, ...namesBefore(`${cut}_view`, name)];
}

/** A table of a source, or something of somebody else's, keeps its name; and no name is longer than names get. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  const cut = cutName(name);
  return taken.has(cut) ? freeName(`${cut}_view`, taken) : cut;
}
