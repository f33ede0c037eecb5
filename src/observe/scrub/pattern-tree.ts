/*
 * Many patterns looked for at once (Aho and Corasick, 1975): the time depends on the length of the text alone, whatever
 * the patterns are and however nearly the text matches them.
 */

/** How a found pattern is treated; of equal patterns the one with the higher number counts. */
export const KINDS = { none: 0, word: 1, whole: 2, base64: 3 } as const;

export type PatternKind = (typeof KINDS)[keyof typeof KINDS];

/** One sequence of bytes to look for. */
export interface Pattern {
  symbols: Uint8Array;
  kind: PatternKind;
  /** From so many symbols on its beginning alone counts if the text was cut there; Infinity for never. */
  cutFrom: number;
}

/** The beginnings of all patterns, each with a number; 0 is the empty one. Rows by that number. */
export interface PatternTree {
  /** The states behind the empty one, by symbol; 0 for none. */
  root: Int32Array;
  /** 1 at `first * 256 + second` for each two symbols with which a pattern begins. */
  pairs: Uint8Array;
  symbol: Uint8Array;
  child: Int32Array;
  sibling: Int32Array;
  /** The longest other beginning that this one ends in. */
  fail: Int32Array;
  length: Int32Array;
  kind: Uint8Array;
  /** The longest whole pattern that this beginning ends in, itself included; 0 for none. */
  found: Int32Array;
  /** Length of the longest suffix that is a beginning and counts if the text was cut there; 0 for none. */
  cut: Int32Array;
}

/** Builds the tree; in time and space linear in the length of all patterns. */
export function patternTree(patterns: readonly Pattern[]): PatternTree {
  const most = patterns.reduce((sum, { symbols }) => sum + symbols.length, 1);
  const column = (): Int32Array => new Int32Array(most);
  const tree: PatternTree = {
    root: new Int32Array(256),
    pairs: new Uint8Array(256 * 256),
    symbol: new Uint8Array(most),
    child: column(),
    sibling: column(),
    fail: column(),
    length: column(),
    kind: new Uint8Array(most),
    found: column(),
    cut: column(),
  };
  let count = 1;
  for (const pattern of patterns) count = insert(tree, pattern, count);
  link(tree, count);
  return tree;
}

/** The state after one more symbol. Over a whole text, the steps back are never more than those forth. */
export function advance(tree: PatternTree, from: number, symbol: number): number {
  for (let state = from; state !== 0; state = at(tree.fail, state)) {
    const next = follow(tree, state, symbol);
    if (next !== 0) return next;
  }
  return at(tree.root, symbol);
}

function follow({ root, child, sibling, symbol }: PatternTree, from: number, wanted: number): number {
  if (from === 0) return at(root, wanted);
  let next = at(child, from);
  while (next !== 0 && symbol[next] !== wanted) next = at(sibling, next);
  return next;
}

/** Adds one pattern to a tree of `count` states, and returns how many there are then. */
function insert(tree: PatternTree, { symbols, kind, cutFrom }: Pattern, count: number): number {
  let [state, states] = [0, count];
  const [first = 0, second] = symbols;
  if (second === undefined) tree.pairs.fill(1, first * 256, first * 256 + 256);
  else tree.pairs[first * 256 + second] = 1;
  for (const [place, symbol] of symbols.entries()) {
    let next = follow(tree, state, symbol);
    if (next === 0) {
      next = states++;
      tree.symbol[next] = symbol;
      tree.length[next] = place + 1;
      if (state === 0) tree.root[symbol] = next;
      else {
        tree.sibling[next] = at(tree.child, state);
        tree.child[state] = next;
      }
    }
    state = next;
    if (place + 1 >= cutFrom) tree.cut[state] = place + 1;
  }
  if (state !== 0) tree.kind[state] = Math.max(kind, at(tree.kind, state));
  return states;
}

/** Fills in what follows from shorter beginnings, the shortest first. */
function link(tree: PatternTree, count: number): void {
  const order = new Int32Array(count);
  let filled = 0;
  for (const state of tree.root) if (state !== 0) order[filled++] = state;
  for (let next = 0; next < filled; next++) {
    const state = at(order, next);
    const shorter = at(tree.fail, state);
    tree.found[state] = at(tree.kind, state) === KINDS.none ? at(tree.found, shorter) : state;
    tree.cut[state] = Math.max(at(tree.cut, state), at(tree.cut, shorter));
    for (let child = at(tree.child, state); child !== 0; child = at(tree.sibling, child)) {
      tree.fail[child] = advance(tree, shorter, at(tree.symbol, child));
      order[filled++] = child;
    }
  }
}

/** Every place that is asked for exists; the compiler cannot know. */
function at(column: Int32Array | Uint8Array, place: number): number {
  return column[place] ?? 0;
}
