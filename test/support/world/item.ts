import type { Behaviour } from './behaviour.ts';
import { Digits, written, type Fields, type Value } from './json-value.ts';
import { nested, refusal, type Answer } from './listing.ts';
import { goneAnswer } from './oddities.ts';
import type { Entries } from './records.ts';

/** One record read alone, as this service shows it. */
export function itemAnswer(behaviour: Behaviour, entries: Entries, key: string, seesAll: boolean): Answer {
  const { item } = behaviour;
  const entry = entries.get(key);
  const isHidden = entry !== undefined && (!(entry.isListed || item.showsUnlisted) || !(entry.isPublic || seesAll));
  const wrap = (body: Value): Value => (item.recordAt === '' ? body : nested([[item.recordAt, body]]));
  if (item.kind === 'none') return refusal(404, 'no such record');
  if (entry === undefined || isHidden) {
    if (typeof item.gone === 'number') return refusal(item.gone, 'no such record');
    const other = [...entries.values()].find((each) => each.key !== key && (each.isPublic || seesAll));
    return goneAnswer(item.gone, wrap, other?.body ?? null);
  }
  if (item.kind === 'no_drafts' && entry.isDraft) return refusal(404, 'no such record');
  return { status: 200, body: wrap(SHAPES[item.kind](entry.body)) };
}

const SHAPES: Readonly<Record<Exclude<Behaviour['item']['kind'], 'none'>, (body: Fields) => Fields>> = {
  same: (body) => body,
  no_drafts: (body) => body,
  // Every other field of the content is only in the listing.
  narrow: (body) => new Map([...body].filter(([name], at) => isOwn(name) || at % 2 === 0)),
  // What the listing names by its id is here as an object, and the reverse; and there is more of it.
  expanded: (body) =>
    new Map<string, Value>([
      ...[...body].map(([name, value]): [string, Value] => (isOwn(name) ? [name, value] : [name, turned(value)])),
      ['links', new Map([['self', '/content/1']])],
    ]),
  other_key: (body) =>
    new Map([...body].map(([name, value]) => (name === 'id' ? ['id', other(value)] : [name, value]))),
};

/** Fields that all shapes have. */
function isOwn(name: string): boolean {
  return ['id', 'space', 'ref', 'created_at', 'updated_at', 'modified', 'sys'].includes(name);
}

function turned(value: Value): Value {
  if (value instanceof Digits) return new Map([['id', value]]);
  return value instanceof Map ? (value.values().next().value ?? null) : value;
}

function other(value: Value): Value {
  return value instanceof Digits ? new Digits(`9${value.text}`) : `document-${written(value)}`;
}
