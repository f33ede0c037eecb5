import type { Post } from '../story/records.ts';
import type { Expected, Version } from './copy.ts';
import { groups, sum, type Row } from './rows.ts';

/** A stretch in which a post had one state. */
interface Stretch {
  id: string;
  state: string;
  from: string;
  to: string | null;
}

function statesIn({ versions }: Expected): Stretch[] {
  return groups(versions, ({ id }) => id).flatMap(([id, history]) => {
    const stretches: Stretch[] = [];
    for (const { post, from, to } of history) {
      const last = stretches.at(-1);
      if (post === null) continue;
      if (last?.state === post.status && last.to === from) last.to = to;
      else stretches.push({ id, state: post.status, from, to });
    }
    return stretches;
  });
}

const holdsAt = ({ from, to }: { from: string; to: string | null }, at: string): boolean =>
  from <= at && (to === null || to > at);

export function fromDraftToPublished(expected: Expected): Row[] {
  return groups(statesIn(expected), ({ id }) => id).flatMap(([id, stretches]) => {
    const drafted = stretches.find(({ state }) => state === 'draft')?.from;
    const published = stretches.find(({ state, from }) => state === 'published' && from > (drafted ?? '9'))?.from;
    if (drafted === undefined || published === undefined) return [];
    return [{ id, drafted, published, days: (Date.parse(published) - Date.parse(drafted)) / 86_400_000 }];
  });
}

/** A version with the one before it. */
function changesIn({ versions }: Expected): { old: Post; now: Post; version: Version }[] {
  return versions.flatMap((version, at) => {
    const before = versions.slice(0, at).findLast(({ id, post }) => id === version.id && post !== null)?.post;
    return before === null || before === undefined || version.post === null
      ? []
      : [{ old: before, now: version.post, version }];
  });
}

export function editsAfterPublication(expected: Expected): Row[] {
  const states = statesIn(expected).filter(({ state }) => state === 'published');
  const edits = changesIn(expected).filter(({ old, now, version: { id, from } }) => {
    const isText = old.title !== now.title || old.body !== now.body || old['excerpt'] !== now['excerpt'];
    return isText && states.some((state) => state.id === id && holdsAt(state, from) && state.from !== from);
  });
  return groups(edits, ({ version: { id } }) => id).map(([id, each]) => ({
    id,
    edits: each.length,
    last_edit: each.at(-1)?.version.from,
  }));
}

export function asOfADate({ versions }: Expected): Row[] {
  const then = versions.filter((version) => holdsAt(version, '2024-11-10T00:00:00.000Z'));
  const posts = then.flatMap(({ post }) => post ?? []);
  return groups(posts, ({ status }) => status).map(([status, each]) => ({
    status,
    posts: each.length,
    words: sum(each.map(({ word_count }) => word_count)),
  }));
}

export function publishedAtAMoment(expected: Expected): Row[] {
  const then = statesIn(expected).filter((state) => holdsAt(state, '2024-11-16T00:00:00.000Z'));
  return then.filter(({ state }) => state === 'published').map(({ id, from }) => ({ id, valid_from: from }));
}

/** Of every day in November, at its end. */
export function backlogOverTime(expected: Expected): Row[] {
  const drafts = statesIn(expected).filter(({ state }) => state === 'draft');
  return Array.from({ length: 30 }, (_, day) => {
    const end = new Date(Date.UTC(2024, 10, day + 2)).toISOString();
    const open = drafts.filter(({ from, to }) => from < end && (to === null || to >= end));
    return { date: `2024-11-${String(day + 1).padStart(2, '0')}`, drafts: open.length };
  });
}

/** Tags that went in the change in which others came. */
export function tagRenames(expected: Expected): Row[] {
  const pairs = changesIn(expected).flatMap(({ old, now }) => {
    const went = old.tags.filter((tag) => tag !== null && !now.tags.includes(tag));
    const came = now.tags.filter((tag) => tag !== null && !old.tags.includes(tag));
    return [...new Set(went)].flatMap((was) => [...new Set(came)].map((is) => JSON.stringify([was, is])));
  });
  return groups(pairs, (pair) => pair).map(([pair, { length }]) => {
    const [was, became] = JSON.parse(pair);
    return { was, became, posts: length };
  });
}

export function oldSlugs(expected: Expected): Row[] {
  const { content } = expected.live;
  const slugs = new Set([...content.values()].map(({ slug }) => slug));
  const pairs = changesIn(expected).flatMap(({ old, now: { id } }) => {
    const post = content.get(id);
    return post === undefined || slugs.has(old.slug) ? [] : [JSON.stringify([old.slug, post.slug, id])];
  });
  return [...new Set(pairs)].flatMap((pair) => {
    const [old_slug, slug, id] = JSON.parse(pair);
    return old_slug === slug ? [] : [{ old_slug, slug, id }];
  });
}
