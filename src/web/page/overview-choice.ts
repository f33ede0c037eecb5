/** By what the table of sources is sorted. */
export const SORTS = ['state', 'name', 'fresh', 'rows', 'changes', 'requests', 'next'] as const;
export type Sort = (typeof SORTS)[number];

/** What a reader wants to see of many sources. */
export interface OverviewChoice {
  sort: Sort;
  isReversed: boolean;
  /** Only sources whose name, or that of a resource, holds it; '' for all. */
  find: string;
  /** Only sources that need attention. */
  trouble: boolean;
}

export const USUAL_CHOICE: OverviewChoice = { sort: 'state', isReversed: false, find: '', trouble: false };

const LONGEST_NAME = 80;

/** Reads the query of the page's address; whatever it does not know counts as not there. */
export function choiceOf(path: string): OverviewChoice {
  const [, query = ''] = path.split('?', 2);
  const asked = new URLSearchParams(query);
  const named = asked.get('sort') ?? '';
  const isReversed = named.startsWith('-');
  const sort = SORTS.find((one) => one === named.replace(/^-/, '')) ?? USUAL_CHOICE.sort;
  const find = (asked.get('find') ?? '').trim().slice(0, LONGEST_NAME);
  return { sort, isReversed, find, trouble: asked.get('only') === 'trouble' };
}

/** The address of the page as it shows this, relative to itself. */
export function addressOf({ sort, isReversed, find, trouble }: OverviewChoice): string {
  const query = new URLSearchParams();
  if (sort !== USUAL_CHOICE.sort || isReversed) query.set('sort', `${isReversed ? '-' : ''}${sort}`);
  if (find !== '') query.set('find', find);
  if (trouble) query.set('only', 'trouble');
  return query.size === 0 ? './' : `./?${query.toString()}`;
}
