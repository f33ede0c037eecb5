import type { PageProfile } from '../../source/page-style.ts';
import { cursorStyle } from './by-cursor.ts';
import { keysetStyle } from './by-last-record.ts';
import { linkStyle, nextUrlStyle } from './by-link.ts';
import { offsetStyle, pageStyle } from './by-number.ts';
import { singleStyle } from './in-one.ts';
import type { PageProfiles, PageStyle } from './page-style.ts';

const STYLES: { [S in keyof PageProfiles]: (profile: PageProfiles[S]) => PageStyle } = {
  cursor: cursorStyle,
  page: pageStyle,
  offset: offsetStyle,
  link: linkStyle,
  'next-url': nextUrlStyle,
  keyset: keysetStyle,
  single: singleStyle,
};

/** The functions of a profile's page style. */
export function openPageStyle<S extends keyof PageProfiles>(profile: PageProfiles[S] & { style: S }): PageStyle {
  return STYLES[profile.style](profile);
}

/** True if the place of the next page is known before this one is read. */
export function isNumbered(profile: PageProfile): boolean {
  return openPageStyle(profile).ahead !== null;
}
