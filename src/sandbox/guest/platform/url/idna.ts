// The mapping tables of UTS #46 (240 KB), needed only for domains that are not plain ASCII.
export { toASCII } from "tr46";
