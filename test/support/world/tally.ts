import { classesOf, costOf } from './account.ts';
import type { Outcome } from './story.ts';

/** Shorter walks say little of a part: one page more is much for them. */
const LONG_WALK = 10;
const SEEDS_SHOWN = 12;

interface Cost {
  walks: number;
  needed: number;
  asked: number;
  item: number;
}

/** What many seeds came to. */
export class Tally {
  readonly #outcomes: Outcome[] = [];

  add(outcome: Outcome): void {
    this.#outcomes.push(outcome);
  }

  /** The whole as lines for a person. */
  report(): string {
    const last = countBy(this.#outcomes, ({ runs }) => runs.at(-1)?.status ?? 'none');
    const every = countBy(
      this.#outcomes.flatMap(({ runs }) => runs),
      ({ status }) => status,
    );
    const broken = this.#outcomes.filter((outcome) => outcome.broken.length > 0);
    const classes = Map.groupBy(
      broken.flatMap((outcome) => classesOf(outcome).map((name) => ({ name, outcome }))),
      ({ name }) => name,
    );
    return [
      `${this.#outcomes.length} services; the last run ended ${last}; all runs ${every}`,
      `what the last runs said: ${countBy(lastCodes(this.#outcomes), String)}`,
      `${broken.length} services broke a promise`,
      ...[...classes]
        .toSorted(([, a], [, b]) => b.length - a.length)
        .flatMap(([name, of]) => [
          `  ${of.length} x ${name}: ${of
            .slice(0, SEEDS_SHOWN)
            .map(({ outcome }) => outcome.seed)
            .join(', ')}`,
          `     ${countBy(of, ({ outcome }) => outcome.behaviour.style)}`,
        ]),
      'requests of a full walk in which nothing moved, against the pages that there are:',
      ...[...this.#costs()].map(
        ([style, { walks, needed, asked, item }]) =>
          `  ${style}: ${asked} for ${needed} pages (x ${(asked / needed).toFixed(2)}), ${item} records read alone, in ${walks} walks`,
      ),
    ].join('\n');
  }

  #costs(): Map<string, Cost> {
    const costs = new Map<string, Cost>();
    for (const outcome of this.#outcomes) {
      const cost = costOf(outcome);
      if (cost === null) continue;
      const length = cost.needed >= LONG_WALK ? `${LONG_WALK} pages and more` : 'fewer pages';
      const name = `${outcome.behaviour.style}, ${length}`;
      const sum = costs.get(name) ?? { walks: 0, needed: 0, asked: 0, item: 0 };
      const { needed, asked, item } = cost;
      costs.set(name, {
        walks: sum.walks + 1,
        needed: sum.needed + needed,
        asked: sum.asked + asked,
        item: sum.item + item,
      });
    }
    return new Map([...costs].toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** `<status> <code>` of each error and warning of a last run. */
function lastCodes(outcomes: readonly Outcome[]): string[] {
  return outcomes.flatMap(({ runs }) => {
    const last = runs.at(-1);
    return (last?.said ?? []).map((text) => `${last?.status} ${text.split(':', 1)[0]}`);
  });
}

function countBy<T>(all: readonly T[], name: (each: T) => string): string {
  const counts = [...Map.groupBy(all, name)].map(([key, of]) => `${key} ${of.length}`);
  return counts.toSorted().join(', ');
}
