import { canonical, type Fields } from '../world/json-value.ts';
import type { PastState } from '../world/records.ts';

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
export interface Grave {
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
  readonly #bodyOf: (post: Post) => Fields;

  constructor(bodyOf: (post: Post) => Fields) {
    this.#bodyOf = bodyOf;
  }

  put(post: Post): void {
    this.#moved(post.changedAt);
    const kept = { ...post, sequence: this.moves };
    this.live.set(post.key, kept);
    const states = this.past.get(post.key) ?? [];
    const updatedAt = post.updatedAt ?? post.createdAt;
    this.past.set(post.key, [...states, { body: canonical(this.#bodyOf(kept)), updatedAt }]);
  }

  /** Removes it for good. */
  remove(post: Post, at: number): void {
    this.#moved(at);
    this.live.delete(post.key);
    this.graves.push({ post, at, sequence: this.moves });
  }

  /** When a post went, the last time that it did; undefined where it is there. */
  goneAt(key: string): number | undefined {
    return this.live.has(key) ? undefined : this.graves.findLast(({ post }) => post.key === key)?.at;
  }

  #moved(at: number): void {
    this.moves += 1;
    this.movedAt = Math.max(this.movedAt, at);
  }
}
