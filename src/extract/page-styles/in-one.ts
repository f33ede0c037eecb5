import type { PageProfiles, PageStyle } from './page-style.ts';

/** A listing that is one answer: that it is the whole list is the profile's word, unless the answer says otherwise. */
export function singleStyle(_profile: PageProfiles['single']): PageStyle {
  return { first: {}, next: () => ({ end: 'whole' }), mayHideNumbers: false, ahead: null };
}
