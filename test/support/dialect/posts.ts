import { canonical, type Fields } from '../world/json-value.ts';
import { FieldMaker, drawTitle, uuidOf } from './drawn-fields.ts';
import type { PastState } from '../world/oracle.ts';
import type { Random } from '../random.ts';
import type { Dialect } from './dialect.ts';

/** A record as the service has it. Never changed: another state is another post. */
export interface Post {
  /** What tells it from all others: its id, and its place where the same id stands in several. */
  key: string;
  id: string;
  /** The how-manieth post it was. */
  serial: number;
  title: string;
  /** What else it holds. */
  fields: Fields;
  /** Epoch milliseconds, as the service compares them. */
  createdAt: number;
  /** Null where it was never updated. */
  updatedAt: number | null;
  /** The locale or the parent that it belongs to; null in a service without such. */
  place: string | null;
  /** `trash`: a tombstone is left of it. `hidden`: not listed, and nothing says so. `other`: of another kind. */
  state: 'live' | 'trash' | 'hidden' | 'other';
  changedAt: number;
  /** True where its time of change tells of this change. */
  isHonest: boolean;
  /** Number of its last change in the service as a whole. */
  sequence: number;
}

/** A post that went, as a feed of deletes tells it. */
interface Grave {
  post: Post;
  at: number;
  sequence: number;
}

/** All posts of a service, and all that they ever were. */
export class Posts {
  readonly live = new Map<string, Post>();
  readonly graves: Grave[] = [];
  /** All that a post ever was, oldest first, by its key. */
  readonly past = new Map<string, PastState[]>();
  /** Counts changes. */
  moves = 0;
  /** When anything changed last. */
  movedAt = -Infinity;
  readonly #snapshots: { at: number; posts: readonly Post[] }[] = [];
  readonly #bodyOf: (post: Post) => Fields;

  constructor(bodyOf: (post: Post) => Fields) {
    this.#bodyOf = bodyOf;
  }

  put(post: Post): void {
    this.#count(post.changedAt);
    const kept = { ...post, sequence: this.moves };
    this.live.set(post.key, kept);
    const states = this.past.get(post.key) ?? [];
    const updatedAt = post.updatedAt ?? post.createdAt;
    this.past.set(post.key, [...states, { body: canonical(this.#bodyOf(kept)), updatedAt }]);
    this.#remember(post.changedAt);
  }

  /** Removes it for good. */
  remove(post: Post, at: number): void {
    this.#count(at);
    this.live.delete(post.key);
    this.#remember(at);
    this.graves.push({ post, at, sequence: this.moves });
  }

  /** The posts as they were at that moment. */
  asOf(at: number): readonly Post[] {
    const snapshot = this.#snapshots.findLast((each) => each.at <= at) ?? this.#snapshots[0];
    return snapshot?.posts ?? [];
  }

  #count(at: number): void {
    this.moves += 1;
    this.movedAt = Math.max(this.movedAt, at);
  }

  #remember(at: number): void {
    this.#snapshots.push({ at, posts: [...this.live.values()] });
  }
}

type Act = (now: number) => Post | null;

/** Someone who works in the service. */
export class PostEditor {
  readonly #posts: Posts;
  readonly #dialect: Dialect;
  readonly #random: Random;
  readonly #fields: FieldMaker;
  readonly #log: string[];
  #serial = 0;

  constructor(posts: Posts, dialect: Dialect, random: Random, log: string[]) {
    this.#posts = posts;
    this.#dialect = dialect;
    this.#random = random;
    this.#fields = new FieldMaker(random);
    this.#log = log;
  }

  /** Writes so many posts, the first of them at `from`. */
  fill(count: number, from: number, until: number): void {
    for (let made = 0; made < count; made += 1) {
      const now = from + Math.floor(((until - from) * made) / count);
      const post = this.#create(now);
      if (this.#random.chance(0.4)) this.#put(post, this.#random.whole(now, until));
    }
  }

  /** One change at this moment; returns the post that it was made to. */
  edit(now: number): Post | null {
    const [kind, act] = this.#random.pick(this.#acts);
    const post = act(now);
    this.#log.push(`${new Date(now).toISOString()} ${kind} ${post?.key ?? 'nothing'}`);
    return post;
  }

  readonly #acts: readonly (readonly [string, Act])[] = [
    ['create', (now) => this.#create(now)],
    ['create', (now) => this.#create(now)],
    ['update', (now) => this.#update(now)],
    ['update', (now) => this.#update(now)],
    ['update', (now) => this.#update(now)],
    ['delete', (now) => this.#delete(now)],
    ['delete', (now) => this.#delete(now)],
    ['hide', (now) => this.#hide(now)],
    ['restore', (now) => this.#restore(now)],
    ['make another kind', (now) => this.#turn(now)],
  ];

  #create(now: number): Post {
    this.#serial += 1;
    const { places, filter } = this.#dialect;
    const stamp = this.#stamp(now);
    const id = this.#id();
    const place = places.values === null ? null : this.#random.pick(places.values);
    const post: Post = {
      key: keyOf(id, place),
      id,
      serial: this.#serial,
      title: drawTitle(this.#random),
      fields: this.#fields.make(this.#serial),
      createdAt: stamp,
      updatedAt: filter.isNullAtFirst === true ? null : stamp,
      place,
      state: this.#dialect.isMixed && this.#random.chance(0.2) ? 'other' : 'live',
      changedAt: now,
      isHonest: true,
      sequence: 0,
    };
    // The same id in another place is another post.
    if (place !== null && this.#random.chance(0.3)) this.#copyTo(post, now);
    this.#posts.put(post);
    return post;
  }

  #copyTo(post: Post, now: number): void {
    const place = this.#random.pick(this.#dialect.places.values ?? ['']);
    if (place === post.place) return;
    const fields = this.#fields.make(this.#serial);
    this.#posts.put({ ...post, key: keyOf(post.id, place), place, fields, changedAt: now });
  }

  #update(now: number): Post | null {
    const post = this.#one(({ state }) => state === 'live');
    return post && this.#put({ ...post, fields: this.#fields.make(this.#serial) }, now);
  }

  #delete(now: number): Post | null {
    const post = this.#one(({ state }) => state !== 'trash');
    if (post === null) return null;
    // Who has a trash empties it now and then, long after.
    if (this.#dialect.deletes.tomb !== null) return this.#put({ ...post, state: 'trash' }, now);
    this.#posts.remove(post, now);
    return post;
  }

  /** It vanishes from the listing, and its own time does not say so. */
  #hide(now: number): Post | null {
    const post = this.#one(({ state }) => state === 'live');
    if (post === null) return null;
    const hidden: Post = { ...post, state: 'hidden', changedAt: now, isHonest: false };
    this.#posts.put(hidden);
    return hidden;
  }

  /** As it was: with its old time, or with a new one. */
  #restore(now: number): Post | null {
    const gone = this.#posts.graves.map(({ post }) => post).filter(({ key }) => !this.#posts.live.has(key));
    const hidden = [...this.#posts.live.values()].filter(({ state }) => state === 'hidden' || state === 'trash');
    const candidates = [...gone, ...hidden];
    if (candidates.length === 0) return null;
    const post: Post = { ...this.#random.pick(candidates), state: 'live' };
    if (this.#random.chance(0.5)) return this.#put(post, now);
    const restored = { ...post, changedAt: now, isHonest: false };
    this.#posts.put(restored);
    return restored;
  }

  #turn(now: number): Post | null {
    const post = this.#dialect.isMixed ? this.#one(({ state }) => state === 'live' || state === 'other') : null;
    return post && this.#put({ ...post, state: post.state === 'live' ? 'other' : 'live' }, now);
  }

  /** The post as changed at this moment; its own time never goes back. */
  #put(post: Post, now: number): Post {
    const updatedAt = Math.max(post.updatedAt ?? post.createdAt, this.#stamp(now));
    const title = this.#random.chance(0.3) ? drawTitle(this.#random) : post.title;
    const put = { ...post, title, updatedAt, changedAt: now, isHonest: true };
    this.#posts.put(put);
    return put;
  }

  #one(isMeant: (post: Post) => boolean): Post | null {
    const posts = [...this.#posts.live.values()].filter(isMeant);
    return posts.length === 0 ? null : this.#random.pick(posts);
  }

  #stamp(now: number): number {
    const { lateMs, times } = this.#dialect;
    const late = this.#random.chance(0.5) ? this.#random.whole(0, lateMs) : 0;
    return Math.floor((now - late) / times.resolution) * times.resolution;
  }

  #id(): string {
    const serial = this.#serial;
    const ids: Readonly<Record<Dialect['ids'], () => string>> = {
      integers: () => String(serial),
      uuids: () => uuidOf(serial),
      odd: () => `${this.#random.pick(['a/b', 'ä ö', 'A', '100%', '~', 'x?y=1', 'c.d', '"q'])}-${serial}`,
    };
    return ids[this.#dialect.ids]();
  }
}

/** The text by which the copy tells a post from all others. */
function keyOf(id: string, place: string | null): string {
  return place === null ? id : JSON.stringify([place, id]);
}
