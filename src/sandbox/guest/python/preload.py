# Imports the modules that snippets use most. From the snapshot they are free, from the archive of the standard library they take 10 to
# 200 ms each. Modules that store a time, a random number or an open file are left out, or reset by run.py.
import abc, argparse, array, ast, asyncio, base64, binascii, bisect, bz2, calendar, cmath, codecs, collections, collections.abc
import colorsys, concurrent.futures, configparser, contextlib, contextvars, copy, csv, ctypes, dataclasses, datetime, decimal, difflib
import dis, email.message, email.mime.text, email.utils, enum, errno, fnmatch, fractions, functools, gc, glob, graphlib, gzip, hashlib
import heapq, hmac, html, html.parser, http.client, inspect, io, ipaddress, itertools, json, keyword, linecache, locale, logging, lzma
import math, mimetypes, numbers, operator, os, os.path, pathlib, pickle, platform, pprint, queue, random, re, reprlib, sched, secrets
import shlex, shutil, sqlite3, statistics, string, struct, subprocess, sys, tarfile, tempfile, textwrap, threading, time, timeit, token
import tokenize, tomllib, traceback, types, typing, unicodedata, unittest, urllib.parse, urllib.request, uuid, warnings, weakref
import xml.etree.ElementTree, xml.dom.minidom, zipfile, zlib, zoneinfo
