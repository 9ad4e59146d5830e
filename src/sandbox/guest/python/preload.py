# Modules that snippets import most: in the snapshot they cost nothing, from the standard library's archive 10 to 200 ms each. None that
# keeps a clock, a number drawn at random, or an open file; those that draw one do so anew (run.py).
import abc, argparse, array, ast, asyncio, base64, binascii, bisect, bz2, calendar, cmath, codecs, collections, collections.abc
import colorsys, concurrent.futures, configparser, contextlib, contextvars, copy, csv, ctypes, dataclasses, datetime, decimal, difflib
import dis, email.message, email.mime.text, email.utils, enum, errno, fnmatch, fractions, functools, gc, glob, graphlib, gzip, hashlib
import heapq, hmac, html, html.parser, http.client, inspect, io, ipaddress, itertools, json, keyword, linecache, locale, logging, lzma
import math, mimetypes, numbers, operator, os, os.path, pathlib, pickle, platform, pprint, queue, random, re, reprlib, sched, secrets
import shlex, shutil, sqlite3, statistics, string, struct, subprocess, sys, tarfile, tempfile, textwrap, threading, time, timeit, token
import tokenize, tomllib, traceback, types, typing, unicodedata, unittest, urllib.parse, urllib.request, uuid, warnings, weakref
import xml.etree.ElementTree, xml.dom.minidom, zipfile, zlib, zoneinfo
