import { Digits, type Fields, type Value } from '../world/json-value.ts';
import type { Dialect } from './dialect.ts';
import type { Post } from './posts.ts';

/** A post as the rows of whoever copies it should have it. */
export function bodyOf(dialect: Dialect): (post: Post) => Fields {
  return (post) =>
    withPlace(
      withMoments(dialect, post, (moment) => moment),
      post,
    );
}

/** A post as a copy should keep it whole: as it was sent, with its place, which the listing may tell alone. */
export function stored(dialect: Dialect, post: Post): Fields {
  return withPlace(shown(dialect, post), post);
}

function withPlace(body: Fields, { place }: Post): Fields {
  return place === null ? body : new Map([...body, ['place', place]]);
}

/** A post as the service writes it. */
export function shown(dialect: Dialect, post: Post): Fields {
  return withMoments(dialect, post, dialect.envelope.moment ?? ((moment) => moment));
}

function withMoments(dialect: Dialect, post: Post, wrap: (moment: Value) => Value): Fields {
  const { times, places, deletes, isMixed } = dialect;
  const { tomb } = deletes;
  const moment = (value: Value): Value => (value === null ? null : wrap(value));
  const own: (readonly [string, Value])[] = [
    ['id', idValue(dialect, post)],
    ['title', post.title],
    ['created_at', moment(times.write(post.createdAt))],
    ['updated_at', moment(updatedValue(dialect, post))],
    ...(isMixed ? [['sort_of', post.state === 'other' ? 'page' : 'post'] as const] : []),
    ...(places.isTold ? [['place', post.place] as const] : []),
    ...(tomb === null ? [] : [post.state === 'trash' ? tomb.trashed(post.changedAt, times) : tomb.live]),
  ];
  const names = new Set(own.map(([name]) => name));
  return new Map([...own, ...[...post.fields].filter(([name]) => !names.has(name))]);
}

/** Whether a post is one of those that the copy holds. */
export function isCopied({ state }: Post): boolean {
  return state === 'live';
}

/** Whether the service lists it. */
export function isListed(post: Post): boolean {
  return post.state !== 'hidden';
}

/** What a post's time of change is written as. */
function updatedValue({ times }: Dialect, { updatedAt }: Post): Value {
  return updatedAt === null ? null : times.write(updatedAt);
}

/** Whole numbers are written as such. */
function idValue({ ids }: Dialect, { id }: Post): Value {
  return ids === 'integers' ? new Digits(id) : id;
}
